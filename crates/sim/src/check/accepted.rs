//! C1 and C8: every acknowledged post exists and has ended; every other post exists at most once.

use std::collections::BTreeMap;

use millstream_core::status::{EventStatus, ExecutionStatus};

use super::violation::{Check, Violation};
use crate::history::{Answer, Event, Execution, History, Post};
use crate::workload::{DEFERRED, POISON, POISON_CAP, TAKES_DEFERRED};

pub(super) fn acknowledged(history: &History) -> Vec<Violation> {
    history.posts.iter().filter_map(|post| verdict(history, post)).collect()
}

fn verdict(history: &History, post: &Post) -> Option<Violation> {
    let wrong = |what: String| Some(Violation::new(Check::C1, &post.execution, what));
    let Post { execution, name, marker, answer, .. } = post;
    let found = history.execution(execution);
    match answer {
        Answer::Refused { .. } | Answer::Unknown => None,
        Answer::Started => match found {
            Some(_) => None,
            None => wrong("was started and is gone".to_owned()),
        },
        Answer::Acknowledged { event } => {
            let Some((execution, event)) = found.and_then(|found| Some((found, found.event(event)?))) else {
                return wrong(format!("{name} {marker} was acknowledged as {event} and is gone"));
            };
            if event.name != *name || event.marker.as_ref().is_some_and(|other| other != marker) {
                return wrong(format!("{name} {marker} was acknowledged as {event:?}"));
            }
            if may_stay(execution, event) {
                return None;
            }
            wrong(format!("{name} {marker} is {} ({:?})", event.status, event.error))
        }
    }
}

/// Whether the event may keep its present status.
fn may_stay(execution: &Execution, event: &Event) -> bool {
    let paused = execution.status == ExecutionStatus::Paused;
    match event.status {
        // A worker that commits it dies.
        EventStatus::Completed | EventStatus::Processing if event.name == POISON => false,
        EventStatus::Completed | EventStatus::Rejected | EventStatus::Failed => true,
        // Its workers died repeatedly, for whatever reason; its execution waits for a person.
        EventStatus::Dead => event.attempts >= POISON_CAP && execution.status != ExecutionStatus::Active,
        EventStatus::Pending => paused,
        EventStatus::Deferred if execution.status == ExecutionStatus::Active => {
            event.name == DEFERRED && execution.state != TAKES_DEFERRED
        }
        EventStatus::Deferred => paused,
        EventStatus::Processing => false,
    }
}

pub(super) fn never_twice(history: &History) -> Vec<Violation> {
    let mut wrong = Vec::new();
    for execution in &history.executions {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for marker in execution.events.iter().filter_map(|event| event.marker.as_deref()) {
            *seen.entry(marker).or_default() += 1;
        }
        for (marker, times) in seen.iter().filter(|(_, times)| **times > 1) {
            let what = format!("{marker} is there {times} times");
            wrong.push(Violation::new(Check::C8, &execution.id, what));
        }
        let refused =
            |post: &&Post| post.execution == execution.id && matches!(post.answer, Answer::Refused { .. });
        for post in history.posts.iter().filter(refused) {
            if seen.contains_key(post.marker.as_str()) {
                let what = format!("{} {} was refused and is there", post.name, post.marker);
                wrong.push(Violation::new(Check::C8, &execution.id, what));
            }
        }
    }
    wrong
}

//! C1 and C8: every acknowledged post exists and has ended; every other post exists at most once.

use std::collections::BTreeMap;

use millstream_model::status::{EventStatus, ExecutionStatus};

use super::violation::{SimCheck, SimViolation};
use crate::history::{SimAnswer, SimEvent, SimExecution, SimHistory, SimPost};
use crate::workload::{DEFERRED, POISON, POISON_CAP, TAKES_DEFERRED};

pub(super) fn check_acknowledged(history: &SimHistory) -> Vec<SimViolation> {
    history.posts.iter().filter_map(|post| check_post(history, post)).collect()
}

fn check_post(history: &SimHistory, post: &SimPost) -> Option<SimViolation> {
    let wrong = |what: String| Some(SimViolation::new(SimCheck::C1, &post.execution, what));
    let SimPost { execution, name, marker, answer, .. } = post;
    let found = history.execution(execution);
    match answer {
        SimAnswer::Refused { .. } | SimAnswer::Unknown => None,
        SimAnswer::Started => match found {
            Some(_) => None,
            None => wrong("was started and is gone".to_owned()),
        },
        SimAnswer::Acknowledged { event } => {
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
fn may_stay(execution: &SimExecution, event: &SimEvent) -> bool {
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

pub(super) fn never_twice(history: &SimHistory) -> Vec<SimViolation> {
    let mut wrong = Vec::new();
    for execution in &history.executions {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for marker in execution.events.iter().filter_map(|event| event.marker.as_deref()) {
            *seen.entry(marker).or_default() += 1;
        }
        for (marker, times) in seen.iter().filter(|(_, times)| **times > 1) {
            let what = format!("{marker} is there {times} times");
            wrong.push(SimViolation::new(SimCheck::C8, &execution.id, what));
        }
        let refused = |post: &&SimPost| {
            post.execution == execution.id && matches!(post.answer, SimAnswer::Refused { .. })
        };
        for post in history.posts.iter().filter(refused) {
            if seen.contains_key(post.marker.as_str()) {
                let what = format!("{} {} was refused and is there", post.name, post.marker);
                wrong.push(SimViolation::new(SimCheck::C8, &execution.id, what));
            }
        }
    }
    wrong
}

//! C6: a timer fires once, not early, and only while its state lasts.

use std::collections::BTreeMap;

use super::{TortureCheck, TortureEvidence, TortureViolation};
use crate::history::{TortureEvent, TortureTransition};

/// How long after its time a timer may still be unfired when everything is quiet, in milliseconds.
const LATE: i64 = 5_000;

pub(super) fn check_timers(evidence: &TortureEvidence) -> Vec<TortureViolation> {
    let history = &evidence.history;
    let mut fired: BTreeMap<(&str, i64), Vec<&TortureEvent>> = BTreeMap::new();
    for event in history.events.values() {
        if let Some(armed) = event.timer_seq {
            fired.entry((&event.execution, armed)).or_default().push(event);
        }
    }
    let waiting: Vec<(&str, i64)> =
        history.timers.iter().map(|timer| (timer.execution.as_str(), timer.armed_seq)).collect();
    let mut violations = Vec::new();
    let mut broke = |execution: &str, what: String| {
        violations.push(TortureViolation::new_violation(TortureCheck::Timers, execution, what))
    };
    for timer in
        history.timers.iter().filter(|timer| timer.fire_at + LATE + evidence.clock_slack < history.now)
    {
        broke(
            &timer.execution,
            format!("the timer of seq {} was due {} ms ago", timer.armed_seq, history.now - timer.fire_at),
        );
    }
    for (execution, log) in &history.transitions {
        for (at, transition) in log.iter().enumerate() {
            for timer in &transition.timers {
                let events =
                    fired.get(&(execution.as_str(), timer.armed_seq)).map(Vec::as_slice).unwrap_or_default();
                if events.len() > 1 {
                    broke(
                        execution,
                        format!("the timer of seq {} fired {} times", timer.armed_seq, events.len()),
                    );
                }
                let early = |event: &&&TortureEvent| event.created_at + evidence.clock_slack < timer.fire_at;
                if let Some(event) = events.iter().find(early) {
                    broke(
                        execution,
                        format!(
                            "the timer of seq {} fired {} ms early",
                            timer.armed_seq,
                            timer.fire_at - event.created_at
                        ),
                    );
                }
                let left = log[at + 1..].iter().any(|later| later.entered);
                let ended =
                    history.executions.get(execution).is_none_or(|execution| execution.phase != "active");
                if events.is_empty() && !left && !ended && !waiting.contains(&(execution, timer.armed_seq)) {
                    broke(execution, format!("the timer of seq {} is lost", timer.armed_seq));
                }
            }
        }
        for event in stale_firings(log, &evidence.history.events) {
            broke(execution, event);
        }
    }
    violations
}

/// Timer events applied after the state that armed the timer had been left.
fn stale_firings(log: &[TortureTransition], events: &BTreeMap<uuid::Uuid, TortureEvent>) -> Vec<String> {
    let mut entered = 0;
    let mut found = Vec::new();
    for transition in log {
        if let Some(armed) = events.get(&transition.event).and_then(|event| event.timer_seq)
            && armed != entered
        {
            found.push(format!(
                "the timer of seq {armed} was applied at seq {}, after the state had been re-entered at {entered}",
                transition.seq
            ));
        }
        if transition.entered {
            entered = transition.seq;
        }
    }
    found
}

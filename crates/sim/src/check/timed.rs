//! C6: timers fire once, not early, for the state entry that armed them, and none is lost.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::status::ExecutionStatus;

use super::violation::{SimCheck, SimViolation};
use crate::history::{SimExecution, SimTransition};

pub(super) fn check_timers(execution: &SimExecution) -> Vec<SimViolation> {
    let mut wrong = Vec::new();
    let mut accuse = |what: String| wrong.push(SimViolation::new(SimCheck::C6, &execution.id, what));
    let mut entry: Option<&SimTransition> = None;
    let mut fired = BTreeSet::new();
    for step in &execution.log {
        if let Some(armed_by) = step.armed_by {
            if !fired.insert((armed_by, &step.name)) {
                accuse(format!("{} of seq {armed_by} fired twice", step.name));
            }
            if entry.is_none_or(|entry| entry.seq != armed_by) {
                accuse(format!(
                    "seq {}: {} of seq {armed_by} fired after its state was left",
                    step.seq, step.name
                ));
            }
            let timer = execution.log.iter().find(|step| step.seq == armed_by);
            let timer = timer.and_then(|armed| armed.arms.iter().find(|timer| timer.send == step.name));
            match timer {
                Some(timer) if step.accepted_at >= timer.fire_at => {}
                found => accuse(format!("{} accepted at {} for {found:?}", step.name, step.accepted_at)),
            }
        }
        if step.entered {
            entry = Some(step);
        }
    }
    let mut balance: BTreeMap<&str, i64> = BTreeMap::new();
    for timer in execution.log.iter().flat_map(|step| &step.arms) {
        *balance.entry(&timer.send).or_default() += 1;
    }
    for event in execution.events.iter().filter(|event| event.actor.as_deref() == Some("timer")) {
        *balance.entry(&event.name).or_default() -= 1;
    }
    for (send, _) in balance.iter().filter(|(_, rest)| **rest < 0) {
        accuse(format!("more {send} were fired than armed"));
    }
    // The execution is still in the state that armed the timer, and the quiet period was longer than the
    // timer.
    if execution.status == ExecutionStatus::Active
        && let Some(entry) = entry.filter(|entry| !entry.ended)
    {
        for timer in entry.arms.iter().filter(|timer| !fired.contains(&(entry.seq, &timer.send))) {
            accuse(format!("{} of seq {} was never heard", timer.send, entry.seq));
        }
    }
    wrong
}

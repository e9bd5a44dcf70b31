//! C5: one outcome, one effect and one outcome event per action, under its last lease.

use std::collections::BTreeMap;

use millstream_model::status::ActionStatus;

use super::violation::{SimCheck, SimViolation};
use crate::history::{SimAction, SimExecution, SimHistory, SimWork};

pub(super) fn check_actions(history: &SimHistory) -> Vec<SimViolation> {
    let mut effects: BTreeMap<&str, usize> = BTreeMap::new();
    let mut highest: BTreeMap<&str, i64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for call in &history.sink {
        let seen = highest.entry(&call.key).or_insert(call.token);
        if call.token < *seen && !call.refused {
            let what = format!("the sink took {} under token {} after {seen}", call.key, call.token);
            wrong.push(SimViolation::new(SimCheck::C5, "", what));
        }
        *seen = call.token.max(*seen);
        *effects.entry(&call.key).or_default() += usize::from(call.effect);
    }
    for (key, _) in effects.iter().filter(|(_, times)| **times > 1) {
        wrong.push(SimViolation::new(SimCheck::C5, "", format!("{key} had more than one effect")));
    }
    for execution in &history.executions {
        for action in &execution.actions {
            let done = effects.get(action.key.as_str()).copied().unwrap_or(0);
            wrong.extend(check_outcome(execution, action, done));
        }
    }
    wrong
}

fn check_outcome(execution: &SimExecution, action: &SimAction, effects: usize) -> Vec<SimViolation> {
    let mut wrong = Vec::new();
    let mut accuse = |what: String| wrong.push(SimViolation::new(SimCheck::C5, &execution.id, what));
    let SimAction { key, work, status, epoch, token, on_success, on_failure, .. } = action;
    let told = match status {
        ActionStatus::Succeeded => {
            match work {
                SimWork::Effect => {
                    if effects != 1 {
                        accuse(format!("{key} succeeded with {effects} effects"));
                    }
                    if *token != Some(*epoch) {
                        accuse(format!("{key} is settled by token {token:?}, its last lease is {epoch}"));
                    }
                }
                SimWork::Child | SimWork::Attempt | SimWork::Owed => {}
            }
            on_success
        }
        ActionStatus::Failed => on_failure,
        ActionStatus::Skipped | ActionStatus::Cancelled | ActionStatus::Standby => &None,
        ActionStatus::Waiting | ActionStatus::Ready | ActionStatus::Leased | ActionStatus::Awaiting => {
            accuse(format!("{key} is {status}"));
            &None
        }
    };
    let events: Vec<&str> = execution
        .events
        .iter()
        .filter(|event| event.about.as_ref() == Some(key))
        .map(|event| event.name.as_str())
        .collect();
    let expected: Vec<&str> = told.iter().map(String::as_str).collect();
    if events != expected {
        accuse(format!("{key} is {status} and has the outcome events {events:?} instead of {expected:?}"));
    }
    wrong
}

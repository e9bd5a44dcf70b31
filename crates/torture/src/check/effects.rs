//! C5: the calls seen by the target and the recorded actions agree, key by key.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{TortureCheck, TortureEvidence, TortureViolation};
use crate::history::TortureAction;
use crate::sink::TortureSinkCall;

/// Grace period of a process that continues after a stop, and of a network that recovers.
const AFTERMATH: Duration = Duration::from_millis(1_000);

pub(super) fn check_effects(evidence: &TortureEvidence) -> Vec<TortureViolation> {
    let mut violations = Vec::new();
    let rows: BTreeMap<&str, &TortureAction> =
        evidence.history.actions.iter().map(|action| (action.key.as_str(), action)).collect();
    for action in &evidence.history.actions {
        violations.extend(check_outcome(evidence, action));
    }
    for (key, known) in &evidence.target.keys {
        let Some(action) = rows.get(key.as_str()) else {
            violations.push(TortureViolation::new_violation(
                TortureCheck::Effects,
                key,
                "the target was called under a key that no action has",
            ));
            continue;
        };
        if known.effects.len() > 1 {
            violations.push(TortureViolation::new_violation(
                TortureCheck::Effects,
                key,
                format!("effects under tokens {:?}", known.effects),
            ));
        }
        if known.highest > action.epoch {
            let what =
                format!("called with token {}, and the last lease was {}", known.highest, action.epoch);
            violations.push(TortureViolation::new_violation(TortureCheck::Effects, key, what));
        }
    }
    violations.extend(check_emitted(evidence));
    violations.extend(late_calls(evidence));
    violations
}

fn check_outcome(evidence: &TortureEvidence, action: &TortureAction) -> Vec<TortureViolation> {
    let broke =
        |what: String| vec![TortureViolation::new_violation(TortureCheck::Effects, &action.key, what)];
    let effects = evidence.target.keys.get(&action.key).map_or(0, |known| known.effects.len());
    match (action.name.as_str(), action.status.as_str()) {
        ("never", "failed") if effects == 0 => Vec::new(),
        ("never", status) => {
            broke(format!("is {status} with {effects} effects, and the target always refuses"))
        }
        (_, "succeeded") if effects == 0 => broke("succeeded without an effect at the target".to_owned()),
        (_, "succeeded") => match action.result_token {
            Some(token) if token == action.epoch => Vec::new(),
            token => broke(format!(
                "the result recorded is of token {token:?}, the last lease was {}",
                action.epoch
            )),
        },
        (_, status) => {
            broke(format!("is {status} after {} attempts, with {effects} effects", action.attempts))
        }
    }
}

/// Every outcome with an event has exactly one event.
fn check_emitted(evidence: &TortureEvidence) -> Vec<TortureViolation> {
    let mut violations = Vec::new();
    let mut told: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for event in evidence.history.events.values() {
        if matches!(event.name.as_str(), "finished" | "refused") {
            *told.entry((&event.execution, &event.name)).or_default() += 1;
        }
    }
    for action in &evidence.history.actions {
        let tells = match (action.name.as_str(), action.status.as_str()) {
            ("join" | "slow" | "flaky" | "lost", "succeeded") => "finished",
            ("never", "failed") => "refused",
            _ => continue,
        };
        *told.entry((&action.execution, tells)).or_default() -= 1;
    }
    for ((execution, name), surplus) in told {
        if surplus != 0 {
            let what = format!("{surplus:+} events {name:?} compared with the outcomes of its actions");
            violations.push(TortureViolation::new_violation(TortureCheck::Effects, execution, what));
        }
    }
    violations
}

/// Calls under an older lease that begin after one under a newer lease: the holder should have seen the end
/// of its lease, unless it was stopped or its call was on the way.
fn late_calls(evidence: &TortureEvidence) -> Vec<TortureViolation> {
    let mut newest: BTreeMap<&str, &TortureSinkCall> = BTreeMap::new();
    let mut violations = Vec::new();
    let mut calls: Vec<&TortureSinkCall> = evidence.target.calls.iter().collect();
    calls.sort_by_key(|call| call.at);
    for call in calls {
        match newest.get(call.key.as_str()) {
            Some(newer) if newer.token > call.token => {
                if !is_excused(&evidence.stops, call.at) {
                    let what = format!(
                        "called with token {} {:.1?} after a call with token {}, while no worker was stopped",
                        call.token,
                        call.at - newer.at,
                        newer.token,
                    );
                    violations.push(TortureViolation::new_violation(TortureCheck::Effects, &call.key, what));
                }
            }
            Some(_) | None => {
                newest.insert(&call.key, call);
            }
        }
    }
    violations
}

fn is_excused(stops: &[(Instant, Instant)], at: Instant) -> bool {
    stops.iter().any(|(from, to)| at >= *from && at <= *to + AFTERMATH)
}

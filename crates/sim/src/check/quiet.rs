//! All checks of a history, and C7: no unfinished work.

use super::violation::{SimCheck, SimViolation};
use super::{accepted, acted, graphs, ordered, related, timed, waited};
use crate::history::{SimHistory, SimLeftovers};

/// All violations of a history.
pub fn check_leftovers(history: &SimHistory) -> Vec<SimViolation> {
    let mut wrong = accepted::check_acknowledged(history);
    wrong.extend(history.executions.iter().flat_map(ordered::exactly_once));
    wrong.extend(ordered::in_order(history));
    wrong.extend(history.executions.iter().flat_map(ordered::check_replay));
    wrong.extend(acted::check_actions(history));
    wrong.extend(history.executions.iter().flat_map(timed::check_timers));
    wrong.extend(nothing_left(&history.left));
    wrong.extend(accepted::never_twice(history));
    wrong.extend(related::check_children(history));
    wrong.extend(graphs::check_graphs(history));
    wrong.extend(waited::decided_in_time(history));
    wrong.into_iter().map(|violation| violation.of_tenant(&history.tenant)).collect()
}

fn nothing_left(left: &SimLeftovers) -> Vec<SimViolation> {
    if *left == SimLeftovers::default() {
        return Vec::new();
    }
    let execution = left.undecided.first().cloned().unwrap_or_default();
    vec![SimViolation::new(SimCheck::C7, &execution, format!("it never became quiet: {left:?}"))]
}

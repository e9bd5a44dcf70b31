//! All checks of a history, and C7: no unfinished work.

use super::violation::{Check, Violation};
use super::{accepted, acted, graphs, ordered, related, timed, waited};
use crate::history::{History, Left};

/// All violations of a history.
pub fn check(history: &History) -> Vec<Violation> {
    let mut wrong = accepted::acknowledged(history);
    wrong.extend(history.executions.iter().flat_map(ordered::exactly_once));
    wrong.extend(ordered::in_order(history));
    wrong.extend(history.executions.iter().flat_map(ordered::replays));
    wrong.extend(acted::once(history));
    wrong.extend(history.executions.iter().flat_map(timed::timers));
    wrong.extend(nothing_left(&history.left));
    wrong.extend(accepted::never_twice(history));
    wrong.extend(related::families(history));
    wrong.extend(graphs::graphs(history));
    wrong.extend(waited::decided_in_time(history));
    wrong.into_iter().map(|violation| violation.of_tenant(&history.tenant)).collect()
}

fn nothing_left(left: &Left) -> Vec<Violation> {
    if *left == Left::default() {
        return Vec::new();
    }
    let execution = left.undecided.first().cloned().unwrap_or_default();
    vec![Violation::new(Check::C7, &execution, format!("it never became quiet: {left:?}"))]
}

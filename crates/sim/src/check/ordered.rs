//! C2, C3 and C4: the log is gapless, holds everything once, in order, and folds to what is stored.

use std::collections::{BTreeMap, BTreeSet};

use super::violation::{SimCheck, SimViolation};
use crate::history::{SimAnswer, SimEvent, SimExecution, SimHistory};
use crate::workload::DEFERRED;

pub(super) fn exactly_once(execution: &SimExecution) -> Vec<SimViolation> {
    let mut wrong = Vec::new();
    let mut accuse = |what: String| wrong.push(SimViolation::new(SimCheck::C2, &execution.id, what));
    let seqs: Vec<i64> = execution.log.iter().map(|step| step.seq).collect();
    let ideal: Vec<i64> = (1..).take(seqs.len()).collect();
    if seqs != ideal {
        accuse(format!("its log has the seqs {seqs:?}"));
    }
    let mut seen = BTreeSet::new();
    for step in &execution.log {
        if !seen.insert(&step.event) {
            accuse(format!("{} {} is in its log twice", step.name, step.event));
        }
        match execution.event(&step.event) {
            Some(event) if event.seq == Some(step.seq) && event.status.is_applied() => {}
            found => accuse(format!("seq {} is of {}, which stands as {found:?}", step.seq, step.event)),
        }
    }
    for event in execution.events.iter().filter(|event| event.status.is_applied()) {
        if !seen.contains(&event.id) {
            accuse(format!("{} {} is applied and not in its log", event.name, event.id));
        }
    }
    wrong
}

/// Acknowledged posts of one client to one execution, in the order in which they were made.
pub(super) fn in_order(history: &SimHistory) -> Vec<SimViolation> {
    let mut posted: BTreeMap<(usize, &str), Vec<(&str, &SimEvent)>> = BTreeMap::new();
    for post in &history.posts {
        if let SimAnswer::Acknowledged { event } = &post.answer
            && let Some(event) = history.execution(&post.execution).and_then(|found| found.event(event))
        {
            posted.entry((post.client, &post.execution)).or_default().push((&post.marker, event));
        }
    }
    let mut wrong = Vec::new();
    for ((_, execution), events) in posted {
        let mut accuse = |what: String| wrong.push(SimViolation::new(SimCheck::C3, execution, what));
        for pair in events.windows(2) {
            if let [(first, a), (second, b)] = pair
                && a.accept_no >= b.accept_no
            {
                accuse(format!(
                    "{second} was accepted before {first}, which was answered before it was sent"
                ));
            }
        }
        // What is deferred waits on purpose.
        let applied: Vec<(&str, i64)> = events
            .iter()
            .filter(|(_, event)| event.name != DEFERRED)
            .filter_map(|(marker, event)| Some((*marker, event.seq?)))
            .collect();
        for pair in applied.windows(2) {
            if let [(first, a), (second, b)] = pair
                && a >= b
            {
                accuse(format!("{second} was applied as {b}, before {first} as {a}"));
            }
        }
    }
    wrong
}

pub(super) fn check_replay(execution: &SimExecution) -> Vec<SimViolation> {
    let accuse = |what: String| SimViolation::new(SimCheck::C4, &execution.id, what);
    let mut wrong: Vec<SimViolation> = execution.mismatches.iter().cloned().map(accuse).collect();
    // What the workload counts in the context is what the log holds.
    for (name, counted) in [
        ("add", "total"),
        ("pay", "paid"),
        ("joined", "joined"),
        ("lost", "lost"),
        ("grown", "grown"),
        ("sorted", "sorted"),
    ] {
        let applied = execution.log.iter().filter(|step| step.name == name).count();
        if let Some(told) = execution.context.get(counted)
            && *told != applied.to_string()
        {
            wrong.push(accuse(format!("{applied} times {name} in its log, and context.{counted} is {told}")));
        }
    }
    wrong
}

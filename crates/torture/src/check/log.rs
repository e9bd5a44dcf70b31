//! C2 and C3: the log of an execution has every applied event once, without gaps, in the clients' order.

use std::collections::BTreeMap;

use super::{TortureCheck, TortureEvidence, TortureViolation};
use crate::load::{PostVerdict, TorturePost};

pub(super) fn check_applied_once(evidence: &TortureEvidence) -> Vec<TortureViolation> {
    let history = &evidence.history;
    let mut violations = Vec::new();
    let mut broke = |subject: &str, what: String| {
        violations.push(TortureViolation::new_violation(TortureCheck::Once, subject, what))
    };
    for (id, execution) in &history.executions {
        let log = history.transitions.get(id).map(Vec::as_slice).unwrap_or_default();
        let seqs: Vec<i64> = log.iter().map(|transition| transition.seq).collect();
        let wanted: Vec<i64> = (1..=execution.seq).collect();
        if seqs != wanted {
            let first = seqs.iter().zip(&wanted).position(|(one, other)| one != other);
            let at = first.unwrap_or(seqs.len().min(wanted.len()));
            broke(
                id,
                format!(
                    "its seq is {}, its log has {} entries and differs from entry {at} on",
                    execution.seq,
                    seqs.len()
                ),
            );
        }
        let mut events = BTreeMap::new();
        for transition in log {
            if let Some(before) = events.insert(transition.event, transition.seq) {
                broke(
                    id,
                    format!(
                        "event {} was applied at seq {before} and at {}",
                        transition.event, transition.seq
                    ),
                );
            }
        }
    }
    for (id, event) in &history.events {
        let applied = history.transitions.get(&event.execution).map(Vec::as_slice).unwrap_or_default();
        let is_applied = || applied.iter().any(|transition| transition.event == *id);
        if event.status == "completed" && event.seq.is_none() && !is_applied() {
            broke(&event.execution, format!("{} {id} is completed and in no log", event.name));
        }
    }
    violations
}

pub(super) fn check_order(evidence: &TortureEvidence) -> Vec<TortureViolation> {
    let mut violations = Vec::new();
    for (execution, posts) in by_execution(&evidence.clients.posts) {
        let mut last: Option<(&TorturePost, i64, i64)> = None;
        for post in posts {
            let PostVerdict::Accepted { event, .. } = &post.told else { continue };
            let Some(event) = evidence.history.events.get(event) else { continue };
            // Deferred events are decided later, in the state that handles them.
            let Some(seq) = event.seq.filter(|_| event.name != "pass") else { continue };
            if let Some((before, accept_no, applied)) = last
                && (event.accept_no <= accept_no || seq <= applied)
            {
                let what = format!(
                    "{} was accepted as {accept_no} and applied at {applied}; {}, posted after it, as {} and at {seq}",
                    before.key, post.key, event.accept_no
                );
                violations.push(TortureViolation::new_violation(TortureCheck::Order, execution, what));
            }
            last = Some((post, event.accept_no, seq));
        }
    }
    violations
}

/// The posts of each execution in the order in which its one client made them.
fn by_execution(posts: &[TorturePost]) -> BTreeMap<&str, Vec<&TorturePost>> {
    let mut found: BTreeMap<&str, Vec<&TorturePost>> = BTreeMap::new();
    for post in posts {
        found.entry(&post.execution).or_default().push(post);
    }
    for posts in found.values_mut() {
        posts.sort_by_key(|post| post.n);
    }
    found
}

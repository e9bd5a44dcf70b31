//! C8: at most one event exists per key, and refused posts do not exist.

use std::collections::BTreeMap;

use super::{TortureCheck, TortureEvidence, TortureViolation};
use crate::load::PostVerdict;

pub(super) fn check_keys(evidence: &TortureEvidence) -> Vec<TortureViolation> {
    let mut events: BTreeMap<&str, u32> = BTreeMap::new();
    for event in evidence.history.events.values() {
        if let Some(key) = &event.key {
            *events.entry(key).or_default() += 1;
        }
    }
    let mut violations: Vec<TortureViolation> = events
        .iter()
        .filter(|(_, count)| **count > 1)
        .map(|(key, count)| {
            TortureViolation::new_violation(TortureCheck::Keys, key, format!("{count} events under this key"))
        })
        .collect();
    for post in &evidence.clients.posts {
        if let PostVerdict::Refused(status) = post.told
            && events.contains_key(post.key.as_str())
        {
            violations.push(TortureViolation::new_violation(
                TortureCheck::Keys,
                &post.key,
                format!("refused with {status}, and it exists"),
            ));
        }
    }
    for contradiction in &evidence.clients.contradictions {
        violations.push(TortureViolation::new_violation(
            TortureCheck::Keys,
            "a repeat",
            contradiction.clone(),
        ));
    }
    violations
}

//! C8: at most one event exists per key, and refused posts do not exist.

use std::collections::BTreeMap;

use super::{Check, Evidence, Violation};
use crate::load::Told;

pub(super) fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut events: BTreeMap<&str, u32> = BTreeMap::new();
    for event in evidence.history.events.values() {
        if let Some(key) = &event.key {
            *events.entry(key).or_default() += 1;
        }
    }
    let mut violations: Vec<Violation> = events
        .iter()
        .filter(|(_, count)| **count > 1)
        .map(|(key, count)| Violation::of(Check::Keys, key, format!("{count} events under this key")))
        .collect();
    for post in &evidence.clients.posts {
        if let Told::Refused(status) = post.told
            && events.contains_key(post.key.as_str())
        {
            violations.push(Violation::of(
                Check::Keys,
                &post.key,
                format!("refused with {status}, and it exists"),
            ));
        }
    }
    for contradiction in &evidence.clients.contradictions {
        violations.push(Violation::of(Check::Keys, "a repeat", contradiction.clone()));
    }
    violations
}

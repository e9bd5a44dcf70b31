//! C1: every acknowledged event exists and ended with the intended outcome.

use super::{TortureCheck, TortureEvidence, TortureViolation};
use crate::history::{TortureEvent, TortureExecution};
use crate::load::PostVerdict;
use crate::stage::POISON;

pub(super) fn check_accepted(evidence: &TortureEvidence) -> Vec<TortureViolation> {
    let mut violations = Vec::new();
    for post in &evidence.clients.posts {
        let PostVerdict::Accepted { event: id, .. } = &post.told else { continue };
        let Some(event) = evidence.history.events.get(id) else {
            violations.push(TortureViolation::new_violation(
                TortureCheck::Accepted,
                &post.key,
                format!("acknowledged as {id} and not there"),
            ));
            continue;
        };
        if event.execution != post.execution || event.name != post.name {
            let what = format!("acknowledged as {id}, which is {} of {}", event.name, event.execution);
            violations.push(TortureViolation::new_violation(TortureCheck::Accepted, &post.key, what));
        }
        let Some(execution) = evidence.history.executions.get(&post.execution) else {
            violations.push(TortureViolation::new_violation(
                TortureCheck::Accepted,
                &post.execution,
                "acknowledged and not there",
            ));
            continue;
        };
        if !is_meant(execution, event, evidence.poison) {
            let what = format!(
                "{} {id} is {} ({} attempts) in a {} in state {}{}",
                event.name,
                event.status,
                event.attempts,
                execution.definition,
                execution.state,
                execution.paused.as_deref().map(|why| format!(", paused: {why}")).unwrap_or_default(),
            );
            violations.push(TortureViolation::new_violation(TortureCheck::Accepted, &post.key, what));
        }
    }
    for (id, definition) in &evidence.clients.executions {
        match evidence.history.executions.get(id) {
            Some(execution) if execution.definition == *definition => {}
            Some(_) | None => violations.push(TortureViolation::new_violation(
                TortureCheck::Accepted,
                id,
                "a start was acknowledged and is not there",
            )),
        }
    }
    violations
}

/// Whether the load intends this outcome for an event of this execution.
fn is_meant(execution: &TortureExecution, event: &TortureEvent, poison: bool) -> bool {
    match (execution.definition.as_str(), event.name.as_str(), event.status.as_str()) {
        ("bomb", POISON, "dead") => poison,
        ("bomb", POISON, "completed") => !poison,
        ("bomb", POISON, _) => false,
        // Events after the poison event wait for a person.
        ("bomb", _, "pending") => poison && execution.paused.is_some(),
        ("gate", "pass", "deferred") => execution.state == "shut",
        ("gate", "lock", "rejected") => true,
        ("ledger", "add" | "close", "rejected") => execution.phase == "completed",
        (_, _, status) => status == "completed",
    }
}

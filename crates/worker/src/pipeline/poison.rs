//! The poison rule: quarantines an event that repeatedly cannot be decided (status `dead`).
//!
//! A visit is *cut short* when its process died (the doorbell comes back by reclaim or, where the stream dies
//! with the process, the event is older than the process that follows a crash), when it panicked, or when the
//! database refused its decision. The head of the mailbox is blamed, in the store, before it is decided
//! again:
//!
//! - the first time in a batch: the culprit among many is unknown, so all heads are counted in one write and
//!   decided together, which costs innocent events next to nothing;
//! - from then on alone: one suspect at a time per worker, its mailbox event by event, each counted just
//!   before it is decided. If the process crashes then, the suspect was the only event being tried.
//!
//! The next success clears an innocent event. A guilty one reaches the cap and becomes `dead`, and its
//! execution is paused until an operator retries or cancels it. A busy lock, an unavailable service and a
//! drain never count.

use millstream_model::error_class::ErrorClass;
use millstream_model::id::{EventId, ExecutionKey, IncidentId};
use millstream_model::incident::NewIncident;
use millstream_model::mutation::{self, Mutation};
use millstream_store::intervention::EventBurial;

use super::inbox::{MailboxVisit, RetryReason, SuspectAttempt, VisitOutcome, VisitSuspicion};
use super::load::{self, CommitSharing, DecidedBy, LoadedVisit};
use crate::environment::WorkerEnvironment;
use crate::metrics;

const DIED: &str = "its worker died or lost its connection while deciding it";

/// Counts first offences in one write and removes repeated suspects from the batch, to be retried alone.
/// Events that need no definition are not suspected.
pub(crate) async fn separate_suspects(
    env: &WorkerEnvironment,
    visits: &[MailboxVisit],
    found: Vec<LoadedVisit>,
    ends: &mut [Option<VisitOutcome>],
) -> Vec<LoadedVisit> {
    let (mut cleared, mut first, mut heads) = (Vec::new(), Vec::new(), Vec::new());
    for found in found {
        let suspected = match (&visits[found.visit_index()].suspicion, &found.by) {
            (_, DecidedBy::Closing) => None,
            (VisitSuspicion::None, DecidedBy::Program(_)) => found
                .head_event()
                .filter(|head| env.options.suspect_before.is_some_and(|before| head.accepted_at <= before)),
            (VisitSuspicion::Redelivered | VisitSuspicion::Alone { .. }, DecidedBy::Program(_)) => {
                found.head_event()
            }
        };
        match suspected.map(|head| (head.event_id, head.attempts)) {
            None => cleared.push(found),
            Some((event_id, 0)) => {
                heads.push((found.loaded.execution.clone(), event_id));
                first.push(found);
            }
            Some(_) => {
                ends[found.visit_index()] =
                    Some(VisitOutcome::Kept(RetryReason::Suspected { why: DIED.to_owned() }))
            }
        }
    }
    if heads.is_empty() {
        return cleared;
    }
    if mutation::is_active(Mutation::AttemptNotCounted) {
        heads.clear();
    }
    match env.stores.executions.count_attempts(&heads).await {
        Ok(_) => cleared.extend(first),
        Err(error) => {
            env.store_outage.record_failure(&error);
            for found in first {
                ends[found.visit_index()] = Some(VisitOutcome::Kept(RetryReason::Unavailable));
            }
        }
    }
    cleared
}

/// Counts an attempt on a suspect that is about to be decided alone; returns the end of the visit if it must
/// not be decided.
pub(crate) async fn count_suspect_attempt(
    env: &WorkerEnvironment,
    found: &mut LoadedVisit,
    attempt: SuspectAttempt,
    why: &str,
) -> Result<(), VisitOutcome> {
    found.company = CommitSharing::Alone;
    let head = match (&found.by, attempt, found.head_event()) {
        (DecidedBy::Program(_), SuspectAttempt::ToCount, Some(head)) => head.event_id,
        (DecidedBy::Program(_), SuspectAttempt::Counted, _)
        | (DecidedBy::Program(_), SuspectAttempt::ToCount, None)
        | (DecidedBy::Closing, _, _) => return Ok(()),
    };
    if mutation::is_active(Mutation::AttemptNotCounted) {
        return Ok(());
    }
    let execution = found.loaded.execution.clone();
    let attempts = match env.stores.executions.count_attempts(&[(execution.clone(), head)]).await {
        Ok(attempts) => attempts.first().copied().unwrap_or(0),
        Err(error) => {
            env.store_outage.record_failure(&error);
            return Err(VisitOutcome::Kept(RetryReason::Unavailable));
        }
    };
    if attempts >= env.options.poison_cap {
        return Err(quarantine_event(env, execution, head, attempts, why).await);
    }
    if let Some(head) = found.loaded.mailbox.iter_mut().find(|event| event.event_id == head) {
        head.attempts = attempts.max(1);
    }
    Ok(())
}

async fn quarantine_event(
    env: &WorkerEnvironment,
    execution: ExecutionKey,
    event_id: EventId,
    attempts: i32,
    why: &str,
) -> VisitOutcome {
    let error = format!("could not be decided in {attempts} attempts; last: {why}");
    let id = IncidentId(env.new_event_id().0);
    let incident = NewIncident { id, class: ErrorClass::Internal, reason: error.clone() };
    let burial = EventBurial { execution, event_id, error, incident };
    if let Err(error) = env.stores.interventions.bury_events(std::slice::from_ref(&burial), env.now()).await {
        env.store_outage.record_failure(&error);
        // Counted already: the next visit counts once more and quarantines the event then.
        return VisitOutcome::Kept(RetryReason::Unavailable);
    }
    ::metrics::counter!(metrics::DEAD).increment(1);
    tracing::error!(
        execution.key = %burial.execution,
        event.id = %burial.event_id,
        error = %burial.error,
        "poison event quarantined as dead, execution paused"
    );
    // Paused: only a cancellation can still be decided, and it rings for itself.
    VisitOutcome::Answered
}

/// Cuts a mailbox to the events that one turn may decide, and says whether it goes alone. The end of an
/// execution is found anywhere in the mailbox.
pub(crate) fn cut_to_suspect(found: &mut LoadedVisit) {
    match found.by {
        DecidedBy::Closing => return,
        DecidedBy::Program(_) => {}
    }
    match load::cut_mailbox(&mut found.loaded) {
        CommitSharing::Alone => found.company = CommitSharing::Alone,
        CommitSharing::Welcome => {}
    }
}

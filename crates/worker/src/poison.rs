//! The poison rule: an event that cannot be decided time after time is put aside.
//!
//! A visit is *cut short* when its process died (the doorbell comes back by reclaim, or, where the stream
//! dies with the process, the event is older than the process that follows a death), when it panicked,
//! or when the database refused what it decided. The blame goes to the head of the mailbox, in the
//! store, before it is decided again:
//!
//! - the first time in company: nobody can tell which of many was at fault, so all heads are counted in
//!   one write and decided together, which costs the innocent next to nothing;
//! - from then on alone: one suspect at a time per worker, its mailbox event by event, each counted just
//!   before it is decided. Whatever takes the process down then was the only one being tried.
//!
//! The innocent are cleared by the next success; the guilty reaches the cap, becomes `dead`, and its
//! execution is paused until a person retries or cancels. A busy lock, an unavailable service and
//! a drain never count.

use millstream_core::action::ErrorClass;
use millstream_core::id::{EventId, ExecutionKey, IncidentId};
use millstream_core::incident::NewIncident;
use millstream_core::planted::{self, Bug};
use millstream_store::intervention::Burial;

use crate::kept::{Attempt, End, Suspicion, Visit, Why};
use crate::load::{self, Company, DecidedBy, Found};
use crate::metrics;
use crate::worker::Worker;

const DIED: &str = "its worker died, or lost touch, while deciding it";

/// Counts first offences in one write and sends those who have been suspected before away, to come
/// back alone. What needs no definition to be decided is not suspected.
pub(crate) async fn judge(
    worker: &Worker,
    visits: &[Visit],
    found: Vec<Found>,
    ends: &mut [Option<End>],
) -> Vec<Found> {
    let (mut cleared, mut first, mut heads) = (Vec::new(), Vec::new(), Vec::new());
    for found in found {
        let suspected = match (&visits[found.at()].suspicion, &found.by) {
            (_, DecidedBy::Closing) => None,
            (Suspicion::None, DecidedBy::Program(_)) => found.head().filter(|head| {
                worker.options.suspect_before.is_some_and(|before| head.accepted_at <= before)
            }),
            (Suspicion::Redelivered | Suspicion::Alone { .. }, DecidedBy::Program(_)) => found.head(),
        };
        match suspected.map(|head| (head.event_id, head.attempts)) {
            None => cleared.push(found),
            Some((event_id, 0)) => {
                heads.push((found.loaded.execution.clone(), event_id));
                first.push(found);
            }
            Some(_) => ends[found.at()] = Some(End::Kept(Why::Suspected { why: DIED.to_owned() })),
        }
    }
    if heads.is_empty() {
        return cleared;
    }
    if planted::is(Bug::AttemptNotCounted) {
        heads.clear();
    }
    match worker.deps.stores.executions.count_attempts(&heads).await {
        Ok(_) => cleared.extend(first),
        Err(error) => {
            worker.store_outage.met(&error);
            for found in first {
                ends[found.at()] = Some(End::Kept(Why::Unavailable));
            }
        }
    }
    cleared
}

/// Counts an attempt on a suspect that is about to be decided alone; the end if it is not to be decided.
pub(crate) async fn try_alone(
    worker: &Worker,
    found: &mut Found,
    attempt: Attempt,
    why: &str,
) -> Result<(), End> {
    found.company = Company::Alone;
    let head = match (&found.by, attempt, found.head()) {
        (DecidedBy::Program(_), Attempt::ToCount, Some(head)) => head.event_id,
        (DecidedBy::Program(_), Attempt::Counted, _)
        | (DecidedBy::Program(_), Attempt::ToCount, None)
        | (DecidedBy::Closing, _, _) => return Ok(()),
    };
    if planted::is(Bug::AttemptNotCounted) {
        return Ok(());
    }
    let execution = found.loaded.execution.clone();
    let attempts = match worker.deps.stores.executions.count_attempts(&[(execution.clone(), head)]).await {
        Ok(attempts) => attempts.first().copied().unwrap_or(0),
        Err(error) => {
            worker.store_outage.met(&error);
            return Err(End::Kept(Why::Unavailable));
        }
    };
    if attempts >= worker.options.poison_cap {
        return Err(bury(worker, execution, head, attempts, why).await);
    }
    if let Some(head) = found.loaded.mailbox.iter_mut().find(|event| event.event_id == head) {
        head.attempts = attempts.max(1);
    }
    Ok(())
}

async fn bury(worker: &Worker, execution: ExecutionKey, event_id: EventId, attempts: i32, why: &str) -> End {
    let error = format!("could not be decided in {attempts} attempts; last: {why}");
    let id = IncidentId(worker.event_id().0);
    let incident = NewIncident { id, class: ErrorClass::Internal, reason: error.clone() };
    let burial = Burial { execution, event_id, error, incident };
    if let Err(error) =
        worker.deps.stores.interventions.bury(std::slice::from_ref(&burial), worker.now()).await
    {
        worker.store_outage.met(&error);
        // Counted already: the next visit counts once more and buries it then.
        return End::Kept(Why::Unavailable);
    }
    ::metrics::counter!(metrics::DEAD).increment(1);
    tracing::error!(
        execution.key = %burial.execution,
        event.id = %burial.event_id,
        error = %burial.error,
        "event put aside, execution paused"
    );
    // Paused: nothing is left to decide but a cancellation, which rings for itself.
    End::Answered
}

/// Cuts a mailbox to what one turn may decide, and says who goes alone. The end of an execution is found
/// wherever it stands in the mailbox.
pub(crate) fn cut(found: &mut Found) {
    match found.by {
        DecidedBy::Closing => return,
        DecidedBy::Program(_) => {}
    }
    match load::slice(&mut found.loaded) {
        Company::Alone => found.company = Company::Alone,
        Company::Welcome => {}
    }
}

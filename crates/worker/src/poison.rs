//! The poison rule: an event that cannot be decided time after time is put aside.
//!
//! A visit is *cut short* when its process died (the doorbell comes back by reclaim), when it
//! panicked, or when the database refused what it decided. Nobody can tell which event was at fault,
//! so the blame goes to the head of the mailbox, in the store, and the suspect is decided alone from
//! then on: alone in its turn and alone in its commit. The innocent are cleared by the next success;
//! the guilty reaches the cap, becomes `dead`, and its execution is paused until a person retries,
//! skips or cancels. A busy lock, an unavailable service and a drain never count.

use millstream_core::id::{EventId, ExecutionKey};
use millstream_store::intervention::Burial;

use crate::kept::{End, Suspicion, Visit, Why};
use crate::load::{self, Company, Found};
use crate::metrics;
use crate::worker::Worker;

/// Counts the attempts of suspects, buries those beyond the cap and cuts the mailboxes of the rest.
pub(crate) async fn judge(
    worker: &Worker,
    visits: &[Visit],
    found: Vec<Found>,
    ends: &mut [Option<End>],
) -> Vec<Found> {
    let (mut cleared, suspects): (Vec<Found>, Vec<Found>) =
        found.into_iter().partition(|found| visits[found.at()].suspicion == Suspicion::None);
    let heads: Vec<(ExecutionKey, EventId)> = suspects
        .iter()
        .filter_map(|found| Some((found.loaded.execution.clone(), found.head()?.event_id)))
        .collect();
    if heads.is_empty() {
        return cleared;
    }
    let attempts = match worker.deps.stores.executions.count_attempts(&heads).await {
        Ok(attempts) => attempts,
        Err(error) => {
            worker.store_outage.met(&error);
            for found in suspects {
                ends[found.at()] = Some(End::Kept(Why::Unavailable));
            }
            return cleared;
        }
    };
    let mut guilty = Vec::new();
    for ((mut found, (execution, event_id)), attempts) in suspects.into_iter().zip(heads).zip(attempts) {
        if attempts < worker.options.poison_cap {
            if let Some(head) = found.loaded.mailbox.iter_mut().find(|event| event.event_id == event_id) {
                head.attempts = attempts;
            }
            found.company = Company::Alone;
            cleared.push(found);
            continue;
        }
        let why = match &visits[found.at()].suspicion {
            Suspicion::Cut { why } => why.as_str(),
            Suspicion::None => "unknown",
        };
        let error = format!("could not be decided in {attempts} attempts; last: {why}");
        guilty.push((found.at(), Burial { execution, event_id, error }));
    }
    bury(worker, guilty, ends).await;
    cleared
}

async fn bury(worker: &Worker, guilty: Vec<(usize, Burial)>, ends: &mut [Option<End>]) {
    if guilty.is_empty() {
        return;
    }
    let (places, burials): (Vec<usize>, Vec<Burial>) = guilty.into_iter().unzip();
    let buried = worker.deps.stores.interventions.bury(&burials, worker.now()).await;
    for (at, burial) in places.into_iter().zip(burials) {
        ends[at] = Some(match &buried {
            Ok(()) => {
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
            Err(error) => {
                worker.store_outage.met(error);
                End::Kept(Why::Unavailable)
            }
        });
    }
}

/// Cuts each mailbox to what one turn may decide, and says who goes alone.
pub(crate) fn cut(found: &mut Found) {
    match load::slice(&mut found.loaded) {
        Company::Alone => found.company = Company::Alone,
        Company::Welcome => {}
    }
}

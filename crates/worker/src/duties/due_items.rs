//! Expires people's work: assignments that were not started or finished in time, and items that were not done
//! in time. `people` decides the consequence (the same person again, another person, another queue, the end).
//!
//! One worker at a time runs the duty, so that a fleet does not race for the same rows; it extends its turn
//! for each batch and releases it at the end. A second worker would find nothing due.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::assignments::OverdueItem;
use millstream_store::item_service::{ItemCommand, ItemEnvironment, ItemReply, apply_commands};

use super::periodic::DutyError;
use crate::metrics;
use crate::perform::ActionPerformer;

pub(crate) const DUTY: &str = "items";
/// Longer than a batch takes (a statement is cut off at 10 s), but only slightly: a worker that dies blocks
/// the duty for as long.
const TURN: Duration = Duration::from_secs(15);
/// Rows per transaction.
const BATCH: usize = 256;

pub(crate) async fn expire_due_items(performer: Arc<ActionPerformer>) -> Result<(), DutyError> {
    let (workers, me) = (&performer.env.stores.workers, &performer.env.options.worker);
    loop {
        let due = performer.env.stores.assignments.list_overdue(performer.env.now(), BATCH).await?;
        if due.is_empty() || workers.take_duty(DUTY, me, TURN, performer.env.now()).await?.is_none() {
            return Ok(());
        }
        let done = settle_due_items(&performer, &due).await;
        if due.len() < BATCH || done == 0 || performer.env.stop.is_cancelled() {
            return Ok(workers.finish_duty(DUTY, me, performer.env.now()).await?);
        }
    }
}

/// Number of rows that are no longer due.
async fn settle_due_items(performer: &ActionPerformer, due: &[OverdueItem]) -> usize {
    let asks: Vec<ItemCommand> =
        due.iter().map(|one| ItemCommand::for_deadline(one, performer.new_assignment_id())).collect();
    let mut done = 0;
    for (due, tended) in due.iter().zip(apply_commands(performer, &asks).await) {
        match tended {
            Ok(ItemReply::Done { .. }) => {
                let what = if due.assignment.is_some() { "assignment" } else { "item" };
                ::metrics::counter!(metrics::ITEMS_DUE, "what" => what).increment(1);
                done += 1;
            }
            // Concurrent change: it was handed in, or has ended.
            Ok(
                ItemReply::Refused { .. }
                | ItemReply::Invalid(_)
                | ItemReply::Unjudged { .. }
                | ItemReply::NotAdopted(_)
                | ItemReply::NoSuchItem,
            ) => {}
            // An unreadable item does not block the others.
            Err(error) => {
                tracing::warn!(item = %due.item.item, error = %error, "could not process a due item");
            }
        }
    }
    done
}

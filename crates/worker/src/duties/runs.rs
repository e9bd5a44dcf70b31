//! Due device runs: without an answer, a start or a heartbeat in time, or with an elapsed pause.
//!
//! Every worker looks; a run changed by another worker meanwhile is looked at again, and then nothing is due.

use std::sync::Arc;

use millstream_core::planted::{self, Bug};
use millstream_store::running::{self, Acted, Answer, Ask, Order, Want};

use super::every::Undone;
use crate::worker::Worker;

/// Runs read, and written, at once.
const PAGE: usize = 100;

pub(crate) async fn look(worker: Arc<Worker>) -> Result<(), Undone> {
    if planted::is(Bug::NoRunMonitor) {
        return Ok(());
    }
    loop {
        let due = worker.deps.stores.runs.due_runs(worker.now(), PAGE).await?;
        let is_last = due.len() < PAGE;
        let order = |key| Order { key, want: Want::Ask(Ask::Due), by: None };
        let orders: Vec<Order> = due.into_iter().map(order).collect();
        let mut done = 0;
        for (order, answer) in orders.iter().zip(running::perform(&*worker, &orders).await) {
            match answer {
                Ok(Answer::Acted(Acted::Done { .. })) => done += 1,
                Ok(
                    Answer::Acted(Acted::Refused(_) | Acted::NoSuchRun | Acted::NoSuchDevice)
                    | Answer::Created(_),
                ) => {}
                // An unreadable run does not block the others.
                Err(error) => {
                    tracing::warn!(run = %order.key, error = %error, "could not process a due run");
                }
            }
        }
        if is_last || done == 0 || worker.stop.is_cancelled() {
            return Ok(());
        }
    }
}

//! The overdue sweep: events that are durable and that nobody has decided.
//!
//! Either they were never rung (an ingress died between its commit and its doorbell) or the doorbell
//! was lost. Their row says that they are undecided, and that is all this sweep needs: an event that
//! reaches the age of `overdue`, then twice that, four times, … is rung again. Which ages were reached
//! since the last sweep is computed in `core::sweep` from the time of that sweep, which is kept with
//! the duty, so nothing is marked on any row and no position over ids is remembered. One worker sweeps
//! at a time; if it dies its turn runs out, and the next sweep covers the time since the last one that
//! was finished.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::id::ExecutionKey;
use millstream_core::sweep::{self, Band};
use millstream_stream::doorbell::Bell;

use super::every::Undone;
use crate::metrics;
use crate::worker::Worker;

const DUTY: &str = "overdue";
const TURN: Duration = Duration::from_secs(60);
/// Executions per page.
const PAGE: usize = 500;

/// Often enough that an event waits little longer than `overdue`.
pub(crate) fn period(worker: &Worker) -> Duration {
    worker.options.overdue / 4
}

pub(crate) async fn sweep(worker: Arc<Worker>) -> Result<(), Undone> {
    let (workers, me) = (&worker.deps.stores.workers, &worker.options.worker);
    let now = worker.now();
    let Some(last) = workers.take_duty(DUTY, me, TURN, now).await? else { return Ok(()) };
    let bands = sweep::bands(last, now, worker.options.overdue);
    match ring_pages(&worker, "overdue", Some(&bands)).await {
        Ok(()) => workers.finish_duty(DUTY, me, now).await?,
        Err(undone) => {
            // The turn is given back, the time of the last sweep stays: the next one covers this too.
            workers.finish_duty(DUTY, me, last).await?;
            return Err(undone);
        }
    }
    Ok(())
}

/// Rings all undecided executions (within `bands`), page by page.
pub(crate) async fn ring_pages(
    worker: &Worker,
    sweep: &'static str,
    bands: Option<&[Band]>,
) -> Result<(), Undone> {
    let mut after: Option<ExecutionKey> = None;
    let mut rung = 0;
    loop {
        let page = worker.deps.stores.events.undecided(bands, after.as_ref(), PAGE).await?;
        let full = page.len() == PAGE;
        after = page.last().cloned();
        rung += page.len();
        ::metrics::counter!(metrics::SWEPT, "sweep" => sweep).increment(page.len() as u64);
        let bells: Vec<Bell> = page.into_iter().map(Bell::Mailbox).collect();
        if !bells.is_empty() {
            worker.deps.streams.bells.publish(&bells).await?;
        }
        if !full || worker.stop.is_cancelled() {
            break;
        }
    }
    if rung > 0 {
        tracing::info!(sweep, executions = rung, "rang undecided executions again");
    }
    Ok(())
}

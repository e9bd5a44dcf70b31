//! A stream that lost its memory: everything undecided is rung again, at once.
//!
//! A loss is noticed in two ways. The stream's generation is a value that is lost with its memory and
//! made anew: an unknown generation means that nothing rung before it can be relied on. And a reader
//! that finds its group gone says so (`Amnesia`), even if the generation survived. Both lead to one
//! sweep over all undecided executions in pages, by one worker at a time. The duty carries the
//! generation in its name, and its time is the beginning of the last sweep: whoever comes later finds
//! that a sweep has begun after the loss that it noticed, and leaves it at that.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::time::Timestamp;

use super::every::{Undone, once};
use super::overdue::ring_pages;
use crate::worker::Worker;

const TURN: Duration = Duration::from_secs(60);

/// Why everything is to be rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Perhaps none: only if nobody has swept in this generation yet.
    Unknown,
    /// Noticed at this time.
    Noticed(Timestamp),
}

pub(crate) async fn run(worker: Arc<Worker>) {
    let mut loss = Loss::Unknown;
    while !worker.stop.is_cancelled() {
        let mut done = false;
        once(&worker, "ring all", async {
            done = sweep(&worker, loss).await?;
            Ok(())
        })
        .await;
        if done {
            loss = Loss::Unknown;
        }
        tokio::select! {
            () = tokio::time::sleep(worker.around(worker.options.tick)) => {}
            () = worker.amnesia.notified() => loss = Loss::Noticed(worker.now()),
            () = worker.stop.cancelled() => return,
        }
    }
}

/// Whether the loss is made good.
async fn sweep(worker: &Worker, loss: Loss) -> Result<bool, Undone> {
    let generation = worker.deps.streams.care.generation().await?;
    if loss == Loss::Unknown && worker.swept_generation(&generation) {
        return Ok(true);
    }
    let (workers, me) = (&worker.deps.stores.workers, &worker.options.worker);
    let duty = format!("ring-all.{generation}");
    let now = worker.now();
    let Some(last) = workers.take_duty(&duty, me, TURN, now).await? else { return Ok(false) };
    let made_good = match loss {
        Loss::Unknown => last > Timestamp::EPOCH,
        Loss::Noticed(at) => last >= at,
    };
    if made_good {
        workers.finish_duty(&duty, me, last).await?;
    } else if let Err(undone) = ring_pages(worker, "all", None).await {
        workers.finish_duty(&duty, me, last).await?;
        return Err(undone);
    } else {
        workers.finish_duty(&duty, me, now).await?;
    }
    worker.remember_generation(generation);
    Ok(true)
}

//! A stream that lost its memory: everything undecided is rung again, at once.
//!
//! A loss is noticed in two ways. The stream's generation is a value that is lost with its memory and
//! made anew: an unknown generation means that nothing rung before it can be relied on. And a reader
//! that finds its group gone says so (`Amnesia`), even if the generation survived. Both lead to one
//! sweep over all undecided executions in pages, by one worker at a time. The time of the duty is the
//! beginning of the last sweep: whoever comes later finds that a sweep has begun after the loss that it
//! noticed, and leaves it at that. Which generation was swept last is kept with a second duty, whose
//! time is a number made of the generation's name ([`mark`]); so there are two rows, however often the
//! stream begins anew.

use std::sync::Arc;

use millstream_core::time::Timestamp;

use super::every::{Undone, once};
use super::overdue::{Swept, TURN, ring_pages};
use crate::worker::Worker;

pub(crate) const DUTY: &str = "ring-all";
/// Done as of the [`mark`] of the generation that was swept.
pub(crate) const GENERATION: &str = "ring-all.generation";

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
            biased;
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
    let now = worker.now();
    let Some(last) = workers.take_duty(DUTY, me, TURN, now).await? else { return Ok(false) };
    let Some(marked) = workers.take_duty(GENERATION, me, TURN, now).await? else {
        workers.finish_duty(DUTY, me, last).await?;
        return Ok(false);
    };
    let made_good = marked == mark(&generation)
        && match loss {
            Loss::Unknown => true,
            Loss::Noticed(at) => last >= at,
        };
    let swept = if made_good { Ok(Swept::All) } else { ring_pages(worker, DUTY, None, |_| true).await };
    let (done_at, done_for) = match (&swept, made_good) {
        (Ok(Swept::All), false) => (now, mark(&generation)),
        (Ok(Swept::All), true) | (Ok(Swept::Part) | Err(_), _) => (last, marked),
    };
    workers.finish_duty(GENERATION, me, done_for).await?;
    workers.finish_duty(DUTY, me, done_at).await?;
    match swept? {
        Swept::All => worker.remember_generation(generation),
        Swept::Part => return Ok(false),
    }
    Ok(true)
}

/// A time that stands for a generation (FNV-1a, some decades wide): another generation has another one,
/// near enough; if not, the overdue sweep finds what this one would have.
fn mark(generation: &str) -> Timestamp {
    const WIDTH: u64 = 1_000_000_000_000;
    let hash = generation
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    Timestamp::from_millis(1 + i64::try_from(hash % WIDTH).unwrap_or(0))
}

/// As at the start of a worker.
#[cfg(test)]
pub(super) async fn sweep_unknown(worker: &Worker) -> Result<bool, Undone> {
    sweep(worker, Loss::Unknown).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_told_apart_and_none_is_never() {
        assert_ne!(mark("a"), mark("b"));
        assert_eq!(mark("a"), mark("a"));
        assert!(mark("") > Timestamp::EPOCH);
    }
}

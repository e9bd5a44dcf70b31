//! Recovery from a stream reset: rings all undecided executions at once.
//!
//! A loss is detected in two ways. The stream's generation is a value that is lost with its data and created
//! again: an unknown generation means that every earlier doorbell may be lost. And a reader that finds its
//! consumer group missing reports it (`Amnesia`), even if the generation survived. Both lead to one sweep
//! over all undecided executions in pages, by one worker at a time. The time of the duty is the beginning of
//! the last sweep: a worker that finds a sweep begun after the loss that it detected does nothing. The last
//! swept generation is kept with a second duty, whose time is a number computed from the generation's name
//! ([`generation_mark`]); so there are two rows, however often the stream is reset.

use std::sync::Arc;

use millstream_model::time::Timestamp;

use super::overdue_sweep::{SweepExtent, TURN, ring_pages};
use super::periodic::{DutyError, run_once};
use crate::environment::WorkerEnvironment;
use crate::stream_loss::StreamLossWatch;

pub(crate) const DUTY: &str = "ring-all";
/// Done as of the [`generation_mark`] of the swept generation.
pub(crate) const GENERATION: &str = "ring-all.generation";

/// The reason for ringing all executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamLoss {
    /// Perhaps no loss: sweeps only if this generation was not swept yet.
    Unknown,
    /// Detected at this time.
    Noticed(Timestamp),
}

pub(crate) async fn run_ring_all(env: Arc<WorkerEnvironment>, losses: Arc<StreamLossWatch>) {
    let mut loss = StreamLoss::Unknown;
    while !env.stop.is_cancelled() {
        let mut done = false;
        run_once(&env, "ring all", async {
            done = sweep_after_loss(&env, &losses, loss).await?;
            Ok(())
        })
        .await;
        if done {
            loss = StreamLoss::Unknown;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(env.jittered(env.options.tick)) => {}
            () = losses.until_missing_group() => loss = StreamLoss::Noticed(env.now()),
            () = env.stop.cancelled() => return,
        }
    }
}

/// Whether the loss is repaired.
async fn sweep_after_loss(
    env: &WorkerEnvironment,
    losses: &StreamLossWatch,
    loss: StreamLoss,
) -> Result<bool, DutyError> {
    let generation = env.streams.care.ensure_generation().await?;
    if loss == StreamLoss::Unknown && losses.has_swept_generation(&generation) {
        return Ok(true);
    }
    let (workers, me) = (&env.stores.workers, &env.options.worker);
    let now = env.now();
    let Some(last) = workers.take_duty(DUTY, me, TURN, now).await? else { return Ok(false) };
    let Some(marked) = workers.take_duty(GENERATION, me, TURN, now).await? else {
        workers.finish_duty(DUTY, me, last).await?;
        return Ok(false);
    };
    let made_good = marked == generation_mark(&generation)
        && match loss {
            StreamLoss::Unknown => true,
            StreamLoss::Noticed(at) => last >= at,
        };
    let swept = if made_good { Ok(SweepExtent::All) } else { ring_pages(env, DUTY, None, |_| true).await };
    let (done_at, done_for) = match (&swept, made_good) {
        (Ok(SweepExtent::All), false) => (now, generation_mark(&generation)),
        (Ok(SweepExtent::All), true) | (Ok(SweepExtent::Part) | Err(_), _) => (last, marked),
    };
    workers.finish_duty(GENERATION, me, done_for).await?;
    workers.finish_duty(DUTY, me, done_at).await?;
    match swept? {
        SweepExtent::All => losses.remember_generation(generation),
        SweepExtent::Part => return Ok(false),
    }
    Ok(true)
}

/// Time value that identifies a generation (FNV-1a, some decades wide). Different generations almost always
/// differ; after a collision the overdue sweep finds what this sweep would have found.
fn generation_mark(generation: &str) -> Timestamp {
    const WIDTH: u64 = 1_000_000_000_000;
    let hash = generation
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    Timestamp::from_millis(1 + i64::try_from(hash % WIDTH).unwrap_or(0))
}

/// As at the start of a worker.
#[cfg(test)]
pub(super) async fn sweep_unknown_generation(env: &WorkerEnvironment) -> Result<bool, DutyError> {
    sweep_after_loss(env, &StreamLossWatch::default(), StreamLoss::Unknown).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_generations_have_distinct_marks() {
        assert_ne!(generation_mark("a"), generation_mark("b"));
        assert_eq!(generation_mark("a"), generation_mark("a"));
        assert!(generation_mark("") > Timestamp::EPOCH);
    }
}

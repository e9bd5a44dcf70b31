//! Rings doorbells: after the commit, in batches, by one task, with retries.
//!
//! A failing doorbell fails no request: the event is durable. The doorbell is kept, coalesced with others
//! of its execution, and rung when the stream is available again. The set of kept doorbells is bounded; the
//! workers' overdue sweep finds the executions of dropped ones, and of those lost in a crash of this
//! process.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_stream::doorbell::{Doorbell, Doorbells};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Doorbells per round trip.
const BATCH: usize = 512;
/// Timeout of a publish.
const PATIENCE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Handle to the ringer task.
#[derive(Debug, Clone)]
pub(crate) struct DoorbellRinger(Arc<RingerState>);

#[derive(Debug)]
struct RingerState {
    unrung: Mutex<BTreeSet<Doorbell>>,
    capacity: usize,
    wake: Notify,
}

impl DoorbellRinger {
    /// Starts the ringer. When `closing` is cancelled it makes a last attempt and ends.
    pub(crate) fn start_ringer(
        bells: Arc<dyn Doorbells>,
        capacity: usize,
        closing: CancellationToken,
        tasks: &TaskTracker,
    ) -> Self {
        let shared = Arc::new(RingerState { unrung: Mutex::default(), capacity, wake: Notify::new() });
        tasks.spawn(run_ringer(shared.clone(), bells, closing));
        Self(shared)
    }

    /// Queues doorbells; returns at once.
    pub(crate) fn ring_later(&self, bells: impl IntoIterator<Item = Doorbell>) {
        let mut unrung = self.0.lock_unrung();
        let before = unrung.len();
        self.0.keep_bells(&mut unrung, bells);
        let more = unrung.len() > before;
        drop(unrung);
        if more {
            self.0.wake.notify_one();
        }
    }
}

impl RingerState {
    fn lock_unrung(&self) -> MutexGuard<'_, BTreeSet<Doorbell>> {
        self.unrung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_bells(&self, unrung: &mut BTreeSet<Doorbell>, bells: impl IntoIterator<Item = Doorbell>) {
        for bell in bells {
            if unrung.len() < self.capacity {
                unrung.insert(bell);
            } else if !unrung.contains(&bell) {
                metrics::counter!("millstream_ring_overflow_total").increment(1);
            }
        }
    }
}

async fn run_ringer(shared: Arc<RingerState>, bells: Arc<dyn Doorbells>, closing: CancellationToken) {
    let mut pause = FIRST_PAUSE;
    loop {
        // Checked before the doorbells are taken: those queued before the closing are still rung.
        let last = closing.is_cancelled();
        let failed = ring_queued_bells(&shared, &*bells).await;
        if last {
            return;
        }
        if failed {
            tokio::select! {
                biased;
                () = tokio::time::sleep(pause) => {}
                () = closing.cancelled() => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        } else {
            pause = FIRST_PAUSE;
            tokio::select! {
                biased;
                () = shared.wake.notified() => {}
                () = closing.cancelled() => {}
            }
        }
    }
}

/// Rings all queued doorbells; keeps those that failed, and returns whether there were any.
async fn ring_queued_bells(shared: &RingerState, bells: &dyn Doorbells) -> bool {
    let taken: Vec<Doorbell> = std::mem::take(&mut *shared.lock_unrung()).into_iter().collect();
    let mut rung = 0;
    for batch in taken.chunks(BATCH) {
        let error = match tokio::time::timeout(PATIENCE, bells.publish_bells(batch)).await {
            Ok(Ok(())) => {
                metrics::counter!("millstream_rings_total").increment(batch.len() as u64);
                rung += batch.len();
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the publish timed out".to_owned(),
        };
        metrics::counter!("millstream_ring_failures_total").increment(1);
        tracing::warn!(%error, unrung = taken.len() - rung, "ringing doorbells failed; retrying");
        break;
    }
    let mut unrung = shared.lock_unrung();
    let failed = rung < taken.len();
    shared.keep_bells(&mut unrung, taken.into_iter().skip(rung));
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
    metrics::gauge!("millstream_unrung").set(unrung.len() as f64);
    failed
}

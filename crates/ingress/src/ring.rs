//! Ringing: after the commit, in batches, by one task, as often as it takes.
//!
//! A bell that cannot be rung fails no request: the event is durable. The bell is kept, coalesced with
//! others of its execution, and rung when the stream is back. The set of kept bells is bounded; what
//! does not fit, and what a crash of this process takes along, is found by the workers' overdue sweep.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_stream::doorbell::{Bell, Doorbells};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bells per round trip.
const BATCH: usize = 512;
/// A publish that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The handle that others ring with.
#[derive(Debug, Clone)]
pub(crate) struct Ring(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    unrung: Mutex<BTreeSet<Bell>>,
    capacity: usize,
    wake: Notify,
}

impl Ring {
    /// Starts the bell ringer. When `closing` is cancelled it makes a last attempt and ends.
    pub(crate) fn start(
        bells: Arc<dyn Doorbells>,
        capacity: usize,
        closing: CancellationToken,
        tasks: &TaskTracker,
    ) -> Self {
        let shared = Arc::new(Shared { unrung: Mutex::default(), capacity, wake: Notify::new() });
        tasks.spawn(ringer(shared.clone(), bells, closing));
        Self(shared)
    }

    /// Leaves bells to be rung; returns at once.
    pub(crate) fn ring(&self, bells: impl IntoIterator<Item = Bell>) {
        let mut unrung = self.0.unrung();
        let before = unrung.len();
        self.0.keep(&mut unrung, bells);
        let more = unrung.len() > before;
        drop(unrung);
        if more {
            self.0.wake.notify_one();
        }
    }
}

impl Shared {
    fn unrung(&self) -> MutexGuard<'_, BTreeSet<Bell>> {
        self.unrung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, unrung: &mut BTreeSet<Bell>, bells: impl IntoIterator<Item = Bell>) {
        for bell in bells {
            if unrung.len() < self.capacity {
                unrung.insert(bell);
            } else if !unrung.contains(&bell) {
                metrics::counter!("millstream_ring_overflow_total").increment(1);
            }
        }
    }
}

async fn ringer(shared: Arc<Shared>, bells: Arc<dyn Doorbells>, closing: CancellationToken) {
    let mut pause = FIRST_PAUSE;
    loop {
        // Looked at before the bells are taken: what was rung before the closing is still rung.
        let last = closing.is_cancelled();
        let failed = ring_all(&shared, &*bells).await;
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

/// Rings everything that waits; keeps what could not be rung and says whether there was any.
async fn ring_all(shared: &Shared, bells: &dyn Doorbells) -> bool {
    let taken: Vec<Bell> = std::mem::take(&mut *shared.unrung()).into_iter().collect();
    let mut rung = 0;
    for batch in taken.chunks(BATCH) {
        let error = match tokio::time::timeout(PATIENCE, bells.publish(batch)).await {
            Ok(Ok(())) => {
                metrics::counter!("millstream_rings_total").increment(batch.len() as u64);
                rung += batch.len();
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        metrics::counter!("millstream_ring_failures_total").increment(1);
        tracing::warn!(%error, unrung = taken.len() - rung, "bells could not be rung, trying again");
        break;
    }
    let mut unrung = shared.unrung();
    let failed = rung < taken.len();
    shared.keep(&mut unrung, taken.into_iter().skip(rung));
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
    metrics::gauge!("millstream_unrung").set(unrung.len() as f64);
    failed
}

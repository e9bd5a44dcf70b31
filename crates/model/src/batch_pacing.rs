//! Batching (group commit): when a batch may start while others are in flight. Pure.
//!
//! Items that arrive while a batch is in flight form the next batch, and a second batch in parallel keeps
//! the store busy. But two batches that split the load are half as large: each costs the same round trips
//! and the same disk sync for fewer items. So:
//!
//! - beside a few single items any batch may start: low load adds no latency;
//! - beside a larger batch the next one starts only when it is as large, and large enough to be worthwhile.
//!
//! A slow batch (a lock, a slow disk) delays smaller ones only for a short time.

use std::time::Duration;

/// Longest delay that a batch in flight imposes on smaller ones.
const PATIENCE: Duration = Duration::from_millis(20);

/// Batches up to this size delay no other batch.
const FEW: usize = 4;
/// From this size on a batch is worth its own round trips, whatever else is in flight.
const WORTHWHILE: usize = 16;

/// A batch in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightBatch {
    pub items: usize,
    pub age: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchPacing {
    Begin,
    /// Wait until a batch ends, more items arrive, or this much time has passed.
    Wait(Duration),
}

/// Whether `waiting` items start a batch now or wait for more.
pub fn decide_batch_start(waiting: usize, under_way: impl IntoIterator<Item = InFlightBatch>) -> BatchPacing {
    let larger = under_way
        .into_iter()
        .filter(|batch| batch.items > FEW && (batch.items > waiting || waiting < WORTHWHILE));
    match larger.map(|batch| PATIENCE.saturating_sub(batch.age)).max() {
        None | Some(Duration::ZERO) => BatchPacing::Begin,
        Some(left) => BatchPacing::Wait(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn young(items: usize) -> InFlightBatch {
        InFlightBatch { items, age: Duration::from_millis(5) }
    }

    #[test]
    fn single_item_starts_at_once() {
        assert_eq!(decide_batch_start(1, []), BatchPacing::Begin);
    }

    #[test]
    fn small_batches_run_in_parallel() {
        assert_eq!(decide_batch_start(1, [young(1), young(FEW)]), BatchPacing::Begin);
    }

    #[test]
    fn small_batch_waits_for_larger_batch() {
        assert_eq!(
            decide_batch_start(9, [young(1), young(10)]),
            BatchPacing::Wait(Duration::from_millis(15))
        );
        assert_eq!(
            decide_batch_start(11, [young(1), young(10)]),
            BatchPacing::Wait(Duration::from_millis(15))
        );
    }

    #[test]
    fn large_batch_starts_beside_equal_batch() {
        assert_eq!(decide_batch_start(WORTHWHILE, [young(WORTHWHILE)]), BatchPacing::Begin);
        assert_eq!(
            decide_batch_start(WORTHWHILE, [young(WORTHWHILE + 1)]),
            BatchPacing::Wait(Duration::from_millis(15))
        );
    }

    #[test]
    fn slow_batch_delays_no_other() {
        assert_eq!(decide_batch_start(1, [InFlightBatch { items: 100, age: PATIENCE }]), BatchPacing::Begin);
    }
}

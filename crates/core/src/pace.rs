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
pub struct UnderWay {
    pub items: usize,
    pub age: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Begin,
    /// Wait until a batch ends, more items arrive, or this much time has passed.
    Wait(Duration),
}

/// Whether `waiting` items start a batch now or wait for more.
pub fn pace(waiting: usize, under_way: impl IntoIterator<Item = UnderWay>) -> Pace {
    let larger = under_way
        .into_iter()
        .filter(|batch| batch.items > FEW && (batch.items > waiting || waiting < WORTHWHILE));
    match larger.map(|batch| PATIENCE.saturating_sub(batch.age)).max() {
        None | Some(Duration::ZERO) => Pace::Begin,
        Some(left) => Pace::Wait(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn young(items: usize) -> UnderWay {
        UnderWay { items, age: Duration::from_millis(5) }
    }

    #[test]
    fn nobody_waits_for_nothing() {
        assert_eq!(pace(1, []), Pace::Begin);
    }

    #[test]
    fn single_items_run_side_by_side() {
        assert_eq!(pace(1, [young(1), young(FEW)]), Pace::Begin);
    }

    #[test]
    fn a_small_batch_waits_for_company_while_a_larger_one_is_under_way() {
        assert_eq!(pace(9, [young(1), young(10)]), Pace::Wait(Duration::from_millis(15)));
        assert_eq!(pace(11, [young(1), young(10)]), Pace::Wait(Duration::from_millis(15)));
    }

    #[test]
    fn a_large_batch_begins_beside_one_that_is_no_larger() {
        assert_eq!(pace(WORTHWHILE, [young(WORTHWHILE)]), Pace::Begin);
        assert_eq!(pace(WORTHWHILE, [young(WORTHWHILE + 1)]), Pace::Wait(Duration::from_millis(15)));
    }

    #[test]
    fn what_takes_long_holds_up_nobody() {
        assert_eq!(pace(1, [UnderWay { items: 100, age: PATIENCE }]), Pace::Begin);
    }
}

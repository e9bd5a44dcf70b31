//! When a batch may begin while others are under way. Pure.
//!
//! Whatever arrived while a batch was under way is the next batch, and a second one beside it keeps the
//! store busy. But two that share a load halve it: each costs the same round trips and the same sync to
//! disk for fewer items. So:
//!
//! - beside a few single items anything may begin: where little arrives nobody waits;
//! - beside anything larger a batch begins only when it is as large, and large enough to be worth it.
//!
//! A batch that takes long (a lock, a slow disk) holds up smaller ones for a moment only.

use std::time::Duration;

/// How long a batch holds up smaller ones.
const PATIENCE: Duration = Duration::from_millis(20);

/// A batch of so many holds up nobody.
const FEW: usize = 4;
/// A batch of so many is worth its own round trips, whatever else is under way.
const WORTHWHILE: usize = 16;

/// A batch that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnderWay {
    pub items: usize,
    pub age: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Begin,
    /// Until one of them ends, more arrives, or this much time has passed.
    Wait(Duration),
}

/// What to do with `waiting` items that could be a batch.
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

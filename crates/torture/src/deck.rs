//! Selects the next fault: a shuffled deck per lane, dealt repeatedly.
//!
//! A deck instead of independent draws: every kind occurs equally often, and none is missing by chance.

use crate::chance::TortureRandom;
use crate::fault_kind::{FaultKind, FaultLane};

#[derive(Debug)]
pub struct FaultDeck {
    kinds: Vec<FaultKind>,
    left: Vec<FaultKind>,
    chance: TortureRandom,
}

impl FaultDeck {
    /// The kinds of `lane` among `kinds`; possibly none.
    pub fn for_lane(lane: FaultLane, kinds: &[FaultKind], seed: &TortureRandom) -> Self {
        let kinds = kinds.iter().copied().filter(|kind| kind.lane() == lane).collect();
        Self { kinds, left: Vec::new(), chance: seed.for_the(lane.name()) }
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The next fault, and the randomness for its details.
    pub fn deal_fault(&mut self) -> Option<(FaultKind, TortureRandom)> {
        if self.left.is_empty() {
            self.left.clone_from(&self.kinds);
            self.chance.shuffle(&mut self.left);
        }
        let kind = self.left.pop()?;
        Some((kind, TortureRandom::from_seed(self.chance.draw())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt_kinds(seed: u64, count: usize) -> Vec<FaultKind> {
        let mut deck = FaultDeck::for_lane(FaultLane::Redis, FaultKind::ALL, &TortureRandom::from_seed(seed));
        (0..count).filter_map(|_| deck.deal_fault()).map(|(kind, _)| kind).collect()
    }

    #[test]
    fn fault_deck_follows_the_seed() {
        assert_eq!(dealt_kinds(5, 40), dealt_kinds(5, 40));
        assert_ne!(dealt_kinds(5, 40), dealt_kinds(6, 40));
    }

    #[test]
    fn fault_deck_deals_each_kind_once() {
        let kinds = FaultKind::ALL.iter().filter(|kind| kind.lane() == FaultLane::Redis).count();
        let mut first = dealt_kinds(9, kinds);
        first.sort();
        first.dedup();
        assert_eq!(first.len(), kinds);
    }

    #[test]
    fn a_lane_without_kinds_deals_nothing() {
        let mut deck =
            FaultDeck::for_lane(FaultLane::Network, &[FaultKind::WorkerKill], &TortureRandom::from_seed(1));
        assert!(deck.is_empty());
        assert!(deck.deal_fault().is_none());
    }
}

//! Selects the next fault: a shuffled deck per lane, dealt repeatedly.
//!
//! A deck instead of independent draws: every kind occurs equally often, and none is missing by chance.

use crate::chance::Chance;
use crate::kind::{Kind, Lane};

#[derive(Debug)]
pub struct Deck {
    kinds: Vec<Kind>,
    left: Vec<Kind>,
    chance: Chance,
}

impl Deck {
    /// The kinds of `lane` among `kinds`; possibly none.
    pub fn of(lane: Lane, kinds: &[Kind], seed: &Chance) -> Self {
        let kinds = kinds.iter().copied().filter(|kind| kind.lane() == lane).collect();
        Self { kinds, left: Vec::new(), chance: seed.for_the(lane.name()) }
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The next fault, and the randomness for its details.
    pub fn deal(&mut self) -> Option<(Kind, Chance)> {
        if self.left.is_empty() {
            self.left.clone_from(&self.kinds);
            self.chance.shuffle(&mut self.left);
        }
        let kind = self.left.pop()?;
        Some((kind, Chance::of(self.chance.draw())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(seed: u64, count: usize) -> Vec<Kind> {
        let mut deck = Deck::of(Lane::Redis, Kind::ALL, &Chance::of(seed));
        (0..count).filter_map(|_| deck.deal()).map(|(kind, _)| kind).collect()
    }

    #[test]
    fn a_seed_deals_the_same_faults_in_the_same_order() {
        assert_eq!(dealt(5, 40), dealt(5, 40));
        assert_ne!(dealt(5, 40), dealt(6, 40));
    }

    #[test]
    fn no_kind_comes_again_before_all_have_come() {
        let kinds = Kind::ALL.iter().filter(|kind| kind.lane() == Lane::Redis).count();
        let mut first = dealt(9, kinds);
        first.sort();
        first.dedup();
        assert_eq!(first.len(), kinds);
    }

    #[test]
    fn a_lane_without_kinds_deals_nothing() {
        let mut deck = Deck::of(Lane::Network, &[Kind::WorkerKill], &Chance::of(1));
        assert!(deck.is_empty());
        assert!(deck.deal().is_none());
    }
}

//! Deterministic randomness from one seed (SplitMix64).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_model::entropy::Entropy;

#[derive(Debug)]
pub(crate) struct SimDice(AtomicU64);

impl SimDice {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(AtomicU64::new(mix_bits(seed ^ 0x6d69_6c6c_7374_7265)))
    }

    /// An independent stream for a part of the run: draws of one part do not affect another.
    pub(crate) fn independent_stream(&self) -> Self {
        Self::from_seed(self.next_u64())
    }

    /// `0..sides`; zero for no sides.
    pub(crate) fn below(&self, sides: u64) -> u64 {
        if sides == 0 { 0 } else { self.next_u64() % sides }
    }

    pub(crate) fn index(&self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// Whether an event with this rate per hundred thousand happens now.
    pub(crate) fn hits(&self, per_100k: u32) -> bool {
        per_100k > 0 && self.below(100_000) < u64::from(per_100k)
    }

    pub(crate) fn one_in(&self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to.saturating_sub(from) + 1))
    }

    pub(crate) fn pick<T: Copy>(&self, of: &[T]) -> Option<T> {
        of.get(self.index(of.len())).copied()
    }

    pub(crate) fn shuffle<T>(&self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.index(at + 1));
        }
    }
}

impl Entropy for SimDice {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        mix_bits(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }
}

fn mix_bits(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

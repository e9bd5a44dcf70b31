//! Randomness for the roles: a fast generator seeded by the operating system.
//!
//! Good for ids and jitter. Not for secrets: API keys take their bits from the system directly.

use std::sync::atomic::{AtomicU64, Ordering};

use millstream_model::entropy::Entropy;
use uuid::Uuid;

/// SplitMix64 on an atomic counter: no lock, no system call per number.
#[derive(Debug)]
pub struct SystemEntropy(AtomicU64);

impl SystemEntropy {
    pub fn from_system() -> Self {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        Self(AtomicU64::new(high ^ low.rotate_left(32)))
    }
}

impl Entropy for SystemEntropy {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

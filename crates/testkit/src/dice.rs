//! Random numbers for tests, reproducible by their seed.
//!
//! The seed is printed, so that a test that fails shows it, and `MILLSTREAM_TEST_SEED` sets it.

use std::time::SystemTime;

/// SplitMix64.
#[derive(Debug)]
pub struct TestDice(u64);

impl TestDice {
    pub fn from_random_seed() -> Self {
        let given = std::env::var("MILLSTREAM_TEST_SEED").ok().and_then(|text| text.parse().ok());
        let clock = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| u64::from(since.subsec_nanos()));
        let seed = given.unwrap_or_else(clock);
        println!("MILLSTREAM_TEST_SEED={seed}");
        Self(seed)
    }

    /// A number in `0..below`; 0 if there is none.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).checked_rem(below).unwrap_or(0)
    }
}

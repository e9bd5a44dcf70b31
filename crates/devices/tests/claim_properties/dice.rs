//! Random numbers, derived from one seed.

/// SplitMix64: small, and identical on every platform.
pub(crate) struct RunDice(pub(crate) u64);

impl RunDice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn of(&mut self, sides: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(sides.max(1)).unwrap()).unwrap()
    }

    pub(crate) fn one<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.of(from.len())].clone())
    }

    pub(crate) fn once_in(&mut self, sides: usize) -> bool {
        self.of(sides) == 0
    }
}

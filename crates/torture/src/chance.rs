//! Reproducible randomness: one seed, and an independent stream of numbers for each user.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct TortureRandom(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl TortureRandom {
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent stream for `name`, unaffected by draws of others.
    pub fn for_the(&self, name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut chance = Self(self.0 ^ hash);
        chance.draw();
        chance
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `0` to `end - 1`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.draw() % end }
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_follow_the_seed() {
        let draw = |seed| {
            let mut chance = TortureRandom::from_seed(seed).for_the("clients");
            (0..100).map(|_| chance.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn each_user_has_its_random_stream() {
        let seed = TortureRandom::from_seed(1);
        assert_ne!(seed.for_the("a").draw(), seed.for_the("b").draw());
    }

    #[test]
    fn shuffle_keeps_all_elements() {
        let mut cards: Vec<u8> = (0..50).collect();
        TortureRandom::from_seed(3).shuffle(&mut cards);
        assert_ne!(cards, (0..50).collect::<Vec<u8>>());
        cards.sort_unstable();
        assert_eq!(cards, (0..50).collect::<Vec<u8>>());
    }
}

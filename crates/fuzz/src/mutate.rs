//! Small changes to inputs, chosen by a seeded generator: the same seed makes the same inputs.

/// A random number generator (splitmix64).
#[derive(Debug, Clone)]
pub struct FuzzRandom(u64);

impl FuzzRandom {
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; zero when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap_or(0)
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }
}

/// Maximum length of generated inputs: small ones find the same bugs and are readable.
const LONGEST: usize = 16 * 1024;

/// One of the `seeds` with a few changes: bytes and words put in, taken out, copied, taken from another seed.
pub fn mutate_input(chooser: &mut FuzzRandom, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = chooser.pick(seeds).cloned().unwrap_or_default();
    for _ in 0..=chooser.below(6) {
        change_bytes(chooser, &mut input, seeds, words);
        input.truncate(LONGEST);
    }
    input
}

fn change_bytes(chooser: &mut FuzzRandom, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
    let at = chooser.below(input.len() + 1);
    let end = (at + chooser.below(24)).min(input.len());
    match chooser.below(8) {
        0 => {
            input.drain(at..end);
        }
        1 => {
            let copied = input[at..end].to_vec();
            let to = chooser.below(input.len() + 1);
            input.splice(to..to, copied);
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << chooser.below(8);
            }
        }
        3 => {
            let byte = u8::try_from(chooser.below(256)).unwrap_or(0);
            input.insert(at, byte);
        }
        4 => {
            let other = chooser.pick(seeds).map_or(&[][..], Vec::as_slice);
            let from = chooser.below(other.len() + 1);
            let to = (from + chooser.below(64)).min(other.len());
            input.splice(at..end, other[from..to].iter().copied());
        }
        5 => input.truncate(at),
        _ => {
            let word = chooser.pick(words).copied().unwrap_or_default();
            let end = if chooser.below(2) == 0 { at } else { end };
            input.splice(at..end, word.bytes());
        }
    }
}

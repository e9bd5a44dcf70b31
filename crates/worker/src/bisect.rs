//! Bisection of a failing batch, until each failing item fails alone. Keeps the order and yields each item
//! once.

use std::ops::Range;

#[derive(Debug)]
pub(crate) struct BatchBisect(Vec<Range<usize>>);

impl BatchBisect {
    /// The whole batch first.
    pub(crate) fn whole_batch(len: usize) -> Self {
        let mut ranges = Self(Vec::new());
        ranges.push_range(0..len);
        ranges
    }

    pub(crate) fn next_range(&mut self) -> Option<Range<usize>> {
        self.0.pop()
    }

    /// Splits a part that has failed as a whole; its halves come next.
    pub(crate) fn split_range(&mut self, range: Range<usize>) {
        let middle = range.start + range.len() / 2;
        self.push_range(middle..range.end);
        self.push_range(range.start..middle);
    }

    fn push_range(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.0.push(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisect_isolates_bad_item_in_order() {
        let (mut bisect, mut passed, mut failed) = (BatchBisect::whole_batch(9), Vec::new(), Vec::new());
        while let Some(range) = bisect.next_range() {
            match (range.contains(&4), range.len()) {
                (true, 1) => failed.push(range.start),
                (true, _) => bisect.split_range(range),
                (false, _) => passed.extend(range),
            }
        }
        assert_eq!((passed, failed), (vec![0, 1, 2, 3, 5, 6, 7, 8], vec![4]));
    }

    #[test]
    fn bisect_skips_empty_batch() {
        assert_eq!(BatchBisect::whole_batch(0).next_range(), None);
    }
}

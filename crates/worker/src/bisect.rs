//! Bisection of a failing batch, until each failing item fails alone. Keeps the order and yields each item
//! once.

use std::ops::Range;

#[derive(Debug)]
pub(crate) struct Bisect(Vec<Range<usize>>);

impl Bisect {
    /// The whole batch first.
    pub(crate) fn of(len: usize) -> Self {
        let mut ranges = Self(Vec::new());
        ranges.push(0..len);
        ranges
    }

    pub(crate) fn next(&mut self) -> Option<Range<usize>> {
        self.0.pop()
    }

    /// Splits a part that has failed as a whole; its halves come next.
    pub(crate) fn halve(&mut self, range: Range<usize>) {
        let middle = range.start + range.len() / 2;
        self.push(middle..range.end);
        self.push(range.start..middle);
    }

    fn push(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.0.push(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_item_is_left_alone_and_the_others_pass_in_order() {
        let (mut bisect, mut passed, mut failed) = (Bisect::of(9), Vec::new(), Vec::new());
        while let Some(range) = bisect.next() {
            match (range.contains(&4), range.len()) {
                (true, 1) => failed.push(range.start),
                (true, _) => bisect.halve(range),
                (false, _) => passed.extend(range),
            }
        }
        assert_eq!((passed, failed), (vec![0, 1, 2, 3, 5, 6, 7, 8], vec![4]));
    }

    #[test]
    fn an_empty_batch_is_not_tried() {
        assert_eq!(Bisect::of(0).next(), None);
    }
}

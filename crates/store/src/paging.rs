//! Page limits of history: by count and by bytes, so that no page holds a thousand payloads of the maximum
//! size. Pure; backends read the sizes first and then only the rows that fit.

use millstream_model::id::Seq;

use crate::execution_store::PageRemainder;

/// Size limit for the payloads and decisions of one page of history.
pub const HISTORY_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The last transition of the page and whether more follow; `None` when there is nothing.
///
/// `sizes` are the transitions of the page in order, one more than `limit` if there is a next page. A
/// transition that exceeds the limit alone is a page of its own.
pub fn cut_history(
    sizes: impl IntoIterator<Item = (Seq, usize)>,
    limit: usize,
) -> Option<(Seq, PageRemainder)> {
    let mut last = None;
    let (mut count, mut bytes) = (0, 0usize);
    for (seq, size) in sizes {
        bytes = bytes.saturating_add(size);
        if let Some(last) = last
            && (count >= limit || bytes > HISTORY_PAGE_BYTES)
        {
            return Some((last, PageRemainder::Remains));
        }
        last = Some(seq);
        count += 1;
    }
    last.map(|last| (last, PageRemainder::Nothing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(sizes: &[usize], limit: usize) -> Option<(i64, PageRemainder)> {
        let sizes = (1..).map(Seq).zip(sizes.iter().copied());
        cut_history(sizes, limit).map(|(last, more)| (last.0, more))
    }

    #[test]
    fn history_page_respects_count_and_bytes() {
        assert_eq!(cut(&[], 3), None);
        assert_eq!(cut(&[1, 1, 1], 3), Some((3, PageRemainder::Nothing)));
        assert_eq!(cut(&[1, 1, 1], 2), Some((2, PageRemainder::Remains)));
        assert_eq!(cut(&[HISTORY_PAGE_BYTES, 1], 9), Some((1, PageRemainder::Remains)));
        assert_eq!(cut(&[HISTORY_PAGE_BYTES - 1, 1], 9), Some((2, PageRemainder::Nothing)));
        assert_eq!(cut(&[HISTORY_PAGE_BYTES + 1], 9), Some((1, PageRemainder::Nothing)));
        assert_eq!(cut(&[usize::MAX, usize::MAX], 9), Some((1, PageRemainder::Remains)));
    }
}

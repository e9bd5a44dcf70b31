//! Size limit of executor logs. Pure; shared by every backend.

use std::borrow::Cow;

use crate::graph_store::MAX_LOG_BYTES;

/// How much of an attempt's log is stored so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    pub bytes: usize,
    /// More was written than is stored: no text is added any more.
    pub truncated: bool,
}

/// What to store of the next text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adding<'a> {
    /// An entry of its own, with the stored size after it.
    Entry(Cow<'a, str>, Kept),
    /// Nothing of it fits: the last entry is marked as truncated.
    Mark,
    Nothing,
}

impl Kept {
    pub fn with(self, text: &str) -> Adding<'_> {
        if self.truncated || text.is_empty() {
            return Adding::Nothing;
        }
        let text = storable(text);
        let room = MAX_LOG_BYTES.saturating_sub(self.bytes);
        if text.len() <= room {
            let kept = Self { bytes: self.bytes + text.len(), truncated: false };
            return Adding::Entry(text, kept);
        }
        let end = text.floor_char_boundary(room);
        if end == 0 && self.bytes > 0 {
            return Adding::Mark;
        }
        let kept = Self { bytes: self.bytes + end, truncated: true };
        let cut = match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..end]),
            Cow::Owned(mut text) => {
                text.truncate(end);
                Cow::Owned(text)
            }
        };
        Adding::Entry(cut, kept)
    }
}

/// PostgreSQL text cannot hold U+0000.
fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let kept = Kept { bytes: MAX_LOG_BYTES - 3, truncated: false };
        let Adding::Entry(text, kept) = kept.with("aäö") else { panic!("not kept") };
        assert_eq!((&*text, kept), ("aä", Kept { bytes: MAX_LOG_BYTES, truncated: true }));
        assert_eq!(kept.with("more"), Adding::Nothing);
        let full = Kept { bytes: MAX_LOG_BYTES - 1, truncated: false };
        assert_eq!(full.with("ä"), Adding::Mark);
    }
}

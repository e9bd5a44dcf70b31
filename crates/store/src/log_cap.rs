//! Size limit of executor logs. Pure; shared by every backend.

use std::borrow::Cow;

use crate::graph_store::MAX_LOG_BYTES;

/// How much of an attempt's log is stored so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogUsage {
    pub bytes: usize,
    /// More was written than is stored: no text is added any more.
    pub truncated: bool,
}

/// What to store of the next text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogAddition<'a> {
    /// An entry of its own, with the stored size after it.
    Entry(Cow<'a, str>, LogUsage),
    /// Nothing of it fits: the last entry is marked as truncated.
    Mark,
    Nothing,
}

impl LogUsage {
    pub fn add_text(self, text: &str) -> LogAddition<'_> {
        if self.truncated || text.is_empty() {
            return LogAddition::Nothing;
        }
        let text = replace_nul(text);
        let room = MAX_LOG_BYTES.saturating_sub(self.bytes);
        if text.len() <= room {
            let kept = Self { bytes: self.bytes + text.len(), truncated: false };
            return LogAddition::Entry(text, kept);
        }
        let end = text.floor_char_boundary(room);
        if end == 0 && self.bytes > 0 {
            return LogAddition::Mark;
        }
        let kept = Self { bytes: self.bytes + end, truncated: true };
        let cut = match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..end]),
            Cow::Owned(mut text) => {
                text.truncate(end);
                Cow::Owned(text)
            }
        };
        LogAddition::Entry(cut, kept)
    }
}

/// PostgreSQL text cannot hold U+0000.
fn replace_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_text_is_cut_between_characters() {
        let kept = LogUsage { bytes: MAX_LOG_BYTES - 3, truncated: false };
        let LogAddition::Entry(text, kept) = kept.add_text("aäö") else { panic!("not kept") };
        assert_eq!((&*text, kept), ("aä", LogUsage { bytes: MAX_LOG_BYTES, truncated: true }));
        assert_eq!(kept.add_text("more"), LogAddition::Nothing);
        let full = LogUsage { bytes: MAX_LOG_BYTES - 1, truncated: false };
        assert_eq!(full.add_text("ä"), LogAddition::Mark);
    }
}

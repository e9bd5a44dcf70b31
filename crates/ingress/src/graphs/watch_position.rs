//! Position of a watcher: an entry of the feed, and the index of an event within it.

use std::fmt;

/// The position of one event: `POSITION.INDEX`. A watcher that has handled it resumes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchPosition {
    /// Of the entry in the feed.
    pub(crate) position: i64,
    /// Index of the event within its entry, from 0.
    pub(crate) index: u32,
}

impl WatchPosition {
    /// Accepts only text that `to_string` writes: each position has one text form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (position, index) = text.split_once('.')?;
        let place = Self { position: position.parse().ok()?, index: index.parse().ok()? };
        (place.position >= 1 && place.to_string() == text).then_some(place)
    }
}

impl fmt::Display for WatchPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.position, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_position_round_trips() {
        let place = WatchPosition { position: 12, index: 3 };
        assert_eq!(WatchPosition::parse(&place.to_string()), Some(place));
        for nonsense in ["", "12", "12.", ".3", "012.3", "12.03", "+12.3", "0.1", "-1.0", "12.3.4", "12.-3"] {
            assert_eq!(WatchPosition::parse(nonsense), None, "{nonsense}");
        }
    }
}

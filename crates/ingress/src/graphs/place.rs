//! Where a watcher is: an entry of the feed, and how many of the things that it tells of were told.

use std::fmt;

/// The place of one event: `POSITION.INDEX`. Who has handled it goes on behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Of the entry in the feed.
    pub(crate) position: i64,
    /// Of the event among those of the entry, from 0.
    pub(crate) index: u32,
}

impl Place {
    /// Only what was written here: the same place has one text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (position, index) = text.split_once('.')?;
        let place = Self { position: position.parse().ok()?, index: index.parse().ok()? };
        (place.position >= 1 && place.to_string() == text).then_some(place)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.position, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_as_it_is_written() {
        let place = Place { position: 12, index: 3 };
        assert_eq!(Place::parse(&place.to_string()), Some(place));
        for nonsense in ["", "12", "12.", ".3", "012.3", "12.03", "+12.3", "0.1", "-1.0", "12.3.4", "12.-3"] {
            assert_eq!(Place::parse(nonsense), None, "{nonsense}");
        }
    }
}

//! Timestamps in whole milliseconds.
//!
//! This module has no `now()`: the caller always passes the time in. Both databases store the number, the
//! API shows RFC 3339 in UTC with milliseconds.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since the Unix epoch, by the store's clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const EPOCH: Timestamp = Timestamp(0);

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub fn plus(self, length: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(length.as_millis()).unwrap_or(i64::MAX)))
    }

    #[must_use]
    pub fn minus(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(length.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The duration since `earlier`; zero when `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    pub fn parse(text: &str) -> Result<Self, InvalidTime> {
        DateTime::parse_from_rfc3339(text)
            .map(|time| Self(time.timestamp_millis()))
            .map_err(|_| InvalidTime { text: text.to_owned() })
    }

    /// The same instant for CEL, which computes with chrono.
    pub fn to_utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

/// A text that is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a time like 2026-01-31T12:00:00.000Z")]
pub struct InvalidTime {
    pub text: String,
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_utc().to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_displays_utc_milliseconds() {
        assert_eq!(Timestamp::from_millis(1_767_225_600_042).to_string(), "2026-01-01T00:00:00.042Z");
    }

    #[test]
    fn timestamp_parses_any_offset() {
        let time = Timestamp::parse("2026-01-01T02:00:00.042+02:00").unwrap();
        assert_eq!(time.to_string(), "2026-01-01T00:00:00.042Z");
    }

    #[test]
    fn timestamp_arithmetic_saturates() {
        assert!(Timestamp::from_millis(i64::MAX).plus(Duration::MAX).to_string().len() > 20);
        assert_eq!(Timestamp::EPOCH.since(Timestamp::from_millis(5)), Duration::ZERO);
    }
}

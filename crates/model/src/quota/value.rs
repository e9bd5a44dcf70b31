//! The value of a quota: a number, a share of a process's capacity, or unlimited.

use std::time::Duration;

use super::name::{QuotaName, QuotaUnit};
use crate::duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaValue {
    Unlimited,
    /// For a duration: milliseconds.
    AtMost(u64),
    /// `parts` of `of` parts of a process's capacity: one tenant may use most of a process and never all of
    /// it.
    Share {
        parts: u32,
        of: u32,
    },
}

/// Upper bound for numbers in settings and JSON, so that sums cannot overflow.
const LARGEST: u64 = 1 << 53;

impl QuotaValue {
    /// The value as a number, for a process with this `capacity`. The share left to others is rounded down:
    /// of fewer than four slots, a share of 3/4 is all of them.
    pub fn of_capacity(self, capacity: u64) -> u64 {
        match self {
            Self::Unlimited => u64::MAX,
            Self::AtMost(most) => most,
            Self::Share { parts, of } => {
                let left = u64::from(of.saturating_sub(parts));
                let others = capacity / u64::from(of.max(1)) * left
                    + capacity % u64::from(of.max(1)) * left / u64::from(of.max(1));
                (capacity - others.min(capacity)).max(1)
            }
        }
    }

    /// The number of a quota that is not a share.
    pub fn at_most(self) -> Option<u64> {
        match self {
            Self::AtMost(most) => Some(most),
            Self::Unlimited | Self::Share { .. } => None,
        }
    }

    /// The length of a quota that is a duration.
    pub fn as_duration(self) -> Option<Duration> {
        self.at_most().map(Duration::from_millis)
    }

    /// Reads a number.
    pub fn of_number(name: QuotaName, number: u64) -> Result<Self, String> {
        match name.unit() {
            QuotaUnit::Duration => Err(format!("must be a duration (like 15s, 30m or 12h), not {number}")),
            QuotaUnit::Number | QuotaUnit::Share if number > LARGEST => {
                Err(format!("must be at most {LARGEST}, or \"unlimited\""))
            }
            QuotaUnit::Number | QuotaUnit::Share => Ok(Self::AtMost(number)),
        }
    }

    /// Parses a text: `unlimited`, a number, a share like `3/4`, or a duration, depending on the unit of the
    /// name.
    pub fn of_text(name: QuotaName, text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        match name.unit() {
            QuotaUnit::Duration => {
                let length = duration::parse(text).map_err(|error| error.to_string())?;
                Ok(Self::AtMost(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)))
            }
            QuotaUnit::Number => match text.parse() {
                Ok(number) => Self::of_number(name, number),
                Err(_) => Err(format!("must be a number or \"unlimited\", not {text:?}")),
            },
            QuotaUnit::Share => match (text.parse(), text.split_once('/')) {
                (Ok(number), _) => Self::of_number(name, number),
                (Err(_), Some((parts, of))) => parse_share(parts, of)
                    .ok_or_else(|| format!("{text:?} is not a share of a process (such as 1/2 or 3/4)")),
                (Err(_), None) => {
                    Err(format!("must be a number, a share like 3/4 or \"unlimited\", not {text:?}"))
                }
            },
        }
    }

    /// The written form, without quotes.
    pub fn to_text(self, name: QuotaName) -> String {
        match (self, name.unit()) {
            (Self::Unlimited, _) => "unlimited".to_owned(),
            (Self::AtMost(millis), QuotaUnit::Duration) => {
                duration::format_duration(Duration::from_millis(millis))
            }
            (Self::AtMost(number), QuotaUnit::Number | QuotaUnit::Share) => number.to_string(),
            (Self::Share { parts, of }, _) => format!("{parts}/{of}"),
        }
    }

    /// The JSON form: numbers are numbers, everything else is a string.
    pub fn to_json(self, name: QuotaName) -> serde_json::Value {
        match (self, name.unit()) {
            (Self::AtMost(number), QuotaUnit::Number | QuotaUnit::Share) => number.into(),
            (Self::AtMost(_) | Self::Unlimited | Self::Share { .. }, _) => self.to_text(name).into(),
        }
    }
}

fn parse_share(parts: &str, of: &str) -> Option<QuotaValue> {
    let (parts, of): (u32, u32) = (parts.parse().ok()?, of.parse().ok()?);
    (0 < parts && parts <= of && of <= 1_000).then_some(QuotaValue::Share { parts, of })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_share_leaves_room_for_others() {
        let share = QuotaValue::Share { parts: 3, of: 4 };
        for (capacity, most) in
            [(0, 1), (1, 1), (3, 3), (4, 3), (512, 384), (4_096, 3_072), (u64::MAX, u64::MAX / 4 * 3 + 3)]
        {
            assert_eq!(share.of_capacity(capacity), most, "{capacity}");
        }
        assert_eq!(QuotaValue::AtMost(7).of_capacity(4), 7);
    }

    #[test]
    fn quota_values_are_read_as_they_are_written() {
        for (name, text) in [
            (QuotaName::Waits, "3/4"),
            (QuotaName::Waits, "17"),
            (QuotaName::Devices, "unlimited"),
            (QuotaName::Devices, "0"),
            (QuotaName::MaxActionTimeout, "90m"),
        ] {
            assert_eq!(QuotaValue::of_text(name, text).unwrap().to_text(name), text);
        }
    }

    #[test]
    fn unsuitable_quota_values_are_refused() {
        for (name, text) in [
            (QuotaName::Waits, "5/4"),
            (QuotaName::Waits, "0/4"),
            (QuotaName::Waits, "many"),
            (QuotaName::Devices, "3/4"),
            (QuotaName::Devices, "-1"),
            (QuotaName::MaxActionTimeout, "90"),
        ] {
            assert!(QuotaValue::of_text(name, text).is_err(), "{name} {text}");
        }
        assert!(QuotaValue::of_number(QuotaName::ImportDuration, 5).is_err());
    }
}

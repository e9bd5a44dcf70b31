//! Durations in human-readable form: `250ms`, `15s`, `30m`, `12h`, `30d`, and `1h30m`.
//!
//! Used by definitions and by settings alike. Zero, signs, fractions and bare numbers are refused,
//! because each of them is easy to misread.

use std::time::Duration;

/// Longest duration: a hundred years, so that adding one to a timestamp cannot overflow.
pub const MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    #[error("{0:?} is not a duration (write it like 250ms, 15s, 30m, 12h, 30d or 1h30m)")]
    Syntax(String),
    #[error("{0:?} is longer than 100 years")]
    TooLong(String),
    #[error("{0:?} must be greater than zero")]
    Zero(String),
}

/// Read a duration. Units must come from large to small, each at most once.
pub fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    let syntax = || InvalidDuration::Syntax(text.to_owned());
    let too_long = || InvalidDuration::TooLong(text.to_owned());
    let (mut rest, mut total, mut last_unit) = (text, 0u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(syntax)?;
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        let unit = unit_millis(unit).filter(|&unit| unit < last_unit).ok_or_else(syntax)?;
        if number.is_empty() {
            return Err(syntax());
        }
        let number: u64 = number.parse().map_err(|_| too_long())?;
        total = number.checked_mul(unit).and_then(|millis| total.checked_add(millis)).ok_or_else(too_long)?;
        (rest, last_unit) = (tail, unit);
    }
    match Duration::from_millis(total) {
        _ if text.is_empty() => Err(syntax()),
        Duration::ZERO => Err(InvalidDuration::Zero(text.to_owned())),
        length if length > MAX => Err(too_long()),
        length => Ok(length),
    }
}

/// Write a duration in the largest unit that represents it exactly.
pub fn format_duration(length: Duration) -> String {
    let millis = length.as_millis();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if millis >= size && millis.is_multiple_of(size) {
            return format!("{}{unit}", millis / size);
        }
    }
    format!("{millis}ms")
}

fn unit_millis(unit: &str) -> Option<u64> {
    match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    }
}

/// For `#[serde(with = …)]`: a duration as text.
pub mod text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(length: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format_duration(*length))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        super::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// For `#[serde(with = …)]`: a duration as text, or null.
pub mod optional {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(length: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match length {
            Some(length) => serializer.serialize_some(&super::format_duration(*length)),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::parse(&text)).transpose().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_parses_every_unit() {
        for (text, millis) in
            [("250ms", 250), ("15s", 15_000), ("30m", 1_800_000), ("1h30m", 5_400_000), ("2d", 172_800_000)]
        {
            assert_eq!(parse(text).unwrap().as_millis(), millis, "{text}");
        }
    }

    #[test]
    fn ambiguous_durations_are_refused() {
        for text in
            ["", "5", "-5s", "1.5s", "5 s", "s", "5x", "5m1h", "1s1s", "5S", "99999999999999999999d", "٣s"]
        {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert_eq!(parse("0s"), Err(InvalidDuration::Zero("0s".into())));
        assert_eq!(parse("40000d"), Err(InvalidDuration::TooLong("40000d".into())));
    }

    #[test]
    fn formatted_duration_parses_back() {
        for text in ["250ms", "15s", "30m", "90m", "12h", "30d"] {
            assert_eq!(format_duration(parse(text).unwrap()), text);
        }
    }
}

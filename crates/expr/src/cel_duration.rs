//! Durations in CEL syntax: `1h30m`, `-2.5s`, `100ms`.

use chrono::TimeDelta;

const UNITS: &[(&str, i128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses one or more numbers with units; `None` on a syntax error or overflow.
pub(super) fn parse(text: &str) -> Option<TimeDelta> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(TimeDelta::zero());
    }
    let mut nanos: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)?;
        nanos = nanos.checked_add(scale_number(number, factor)?)?;
        rest = tail;
    }
    let nanos = i64::try_from(if negative { -nanos } else { nanos }).ok()?;
    Some(TimeDelta::nanoseconds(nanos))
}

/// `number` times `factor`, where the number may have a fraction.
fn scale_number(number: &str, factor: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
    let scale = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    digits(whole)?.checked_mul(factor)?.checked_add(digits(fraction)?.checked_mul(factor)? / scale)
}

/// Seconds with the necessary decimals: `5400s`, `0.25s`.
pub(super) fn format_span(length: TimeDelta) -> String {
    let nanos = i128::from(length.num_seconds()) * 1_000_000_000 + i128::from(length.subsec_nanos());
    let (sign, nanos) = if nanos < 0 { ("-", -nanos) } else { ("", nanos) };
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{seconds}s");
    }
    let decimals = format!("{fraction:09}");
    format!("{sign}{seconds}.{}s", decimals.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cel_duration_adds_units() {
        assert_eq!(parse("1h30m").unwrap(), TimeDelta::minutes(90));
        assert_eq!(parse("-2.5s").unwrap(), TimeDelta::milliseconds(-2500));
        assert_eq!(parse("0").unwrap(), TimeDelta::zero());
    }

    #[test]
    fn invalid_cel_duration_is_refused() {
        for text in ["", "-", "5", "5x", "h", "1.2.3s", ".s", "99999999999999999999h", "9999999999h", "1d"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn cel_duration_formats_as_seconds() {
        assert_eq!(format_span(TimeDelta::minutes(90)), "5400s");
        assert_eq!(format_span(TimeDelta::milliseconds(-250)), "-0.25s");
    }
}

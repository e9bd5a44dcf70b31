//! The functions of expressions: the CEL standard functions that apply to JSON data.
//!
//! Absent on purpose: bytes, unsigned numbers, time zones, and anything that reads a clock.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a value of any kind but the wanted one is an error, including future kinds"
)]

use std::sync::Arc;

use chrono::{DateTime, Datelike, Timelike, Utc};

use super::budget::Budget;
use super::value::time_text;
use super::{EvalError, Value, number, span};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    LowerAscii,
    UpperAscii,
    Trim,
    Int,
    Double,
    Text,
    Bool,
    Dyn,
    Timestamp,
    Duration,
    Part(TimePart),
}

/// The accessors of timestamps and durations, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimePart {
    FullYear,
    Month,
    Date,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

/// The call syntax of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// `size(x)`
    Global,
    /// `x.size()`
    Member,
}

const FUNCTIONS: &[(&str, Function, &[Call])] = &[
    ("size", Function::Size, &[Call::Global, Call::Member]),
    ("contains", Function::Contains, &[Call::Member]),
    ("startsWith", Function::StartsWith, &[Call::Member]),
    ("endsWith", Function::EndsWith, &[Call::Member]),
    ("matches", Function::Matches, &[Call::Global, Call::Member]),
    ("lowerAscii", Function::LowerAscii, &[Call::Member]),
    ("upperAscii", Function::UpperAscii, &[Call::Member]),
    ("trim", Function::Trim, &[Call::Member]),
    ("int", Function::Int, &[Call::Global]),
    ("double", Function::Double, &[Call::Global]),
    ("string", Function::Text, &[Call::Global]),
    ("bool", Function::Bool, &[Call::Global]),
    ("dyn", Function::Dyn, &[Call::Global]),
    ("timestamp", Function::Timestamp, &[Call::Global]),
    ("duration", Function::Duration, &[Call::Global]),
    ("getFullYear", Function::Part(TimePart::FullYear), &[Call::Member]),
    ("getMonth", Function::Part(TimePart::Month), &[Call::Member]),
    ("getDate", Function::Part(TimePart::Date), &[Call::Member]),
    ("getDayOfMonth", Function::Part(TimePart::DayOfMonth), &[Call::Member]),
    ("getDayOfWeek", Function::Part(TimePart::DayOfWeek), &[Call::Member]),
    ("getDayOfYear", Function::Part(TimePart::DayOfYear), &[Call::Member]),
    ("getHours", Function::Part(TimePart::Hours), &[Call::Member]),
    ("getMinutes", Function::Part(TimePart::Minutes), &[Call::Member]),
    ("getSeconds", Function::Part(TimePart::Seconds), &[Call::Member]),
    ("getMilliseconds", Function::Part(TimePart::Milliseconds), &[Call::Member]),
];

impl Function {
    pub(super) fn named(name: &str, call: Call) -> Option<Self> {
        FUNCTIONS
            .iter()
            .find(|(known, _, calls)| *known == name && calls.contains(&call))
            .map(|(_, function, _)| *function)
    }

    pub(super) fn names(call: Call) -> impl Iterator<Item = &'static str> {
        FUNCTIONS.iter().filter(move |(_, _, calls)| calls.contains(&call)).map(|(name, _, _)| *name)
    }

    /// Whether the function takes `arity` arguments. The receiver counts as an argument.
    pub(super) fn accepts(self, arity: usize) -> bool {
        match self {
            Self::Contains | Self::StartsWith | Self::EndsWith | Self::Matches => arity == 2,
            Self::Size
            | Self::LowerAscii
            | Self::UpperAscii
            | Self::Trim
            | Self::Int
            | Self::Double
            | Self::Text
            | Self::Bool
            | Self::Dyn
            | Self::Timestamp
            | Self::Duration
            | Self::Part(_) => arity == 1,
        }
    }
}

pub(super) fn call(function: Function, arguments: &[Value], budget: &Budget<'_>) -> Result<Value, EvalError> {
    match (function, arguments) {
        (Function::Size, [value]) => size(value, budget),
        (Function::Contains, [text, part]) => {
            // The search reads most bytes more than once.
            if let Value::Text(text) = text {
                budget.read_text(text.len())?;
            }
            texts(text, part, budget, |text, part| text.contains(part))
        }
        (Function::StartsWith, [text, part]) => {
            texts(text, part, budget, |text, part| text.starts_with(part))
        }
        (Function::EndsWith, [text, part]) => texts(text, part, budget, |text, part| text.ends_with(part)),
        (Function::LowerAscii, [value]) => changed(value, budget, |text| text.to_ascii_lowercase()),
        (Function::UpperAscii, [value]) => changed(value, budget, |text| text.to_ascii_uppercase()),
        (Function::Trim, [value]) => changed(value, budget, |text| text.trim().to_owned()),
        (Function::Int, [value]) => int(value, budget),
        (Function::Double, [value]) => double(value, budget),
        (Function::Text, [value]) => text(value, budget),
        (Function::Bool, [value]) => boolean(value, budget),
        (Function::Dyn, [value]) => Ok(value.clone()),
        (Function::Timestamp, [value]) => timestamp(value, budget),
        (Function::Duration, [value]) => duration(value, budget),
        (Function::Part(part), [Value::Time(time)]) => Ok(Value::Int(of_time(part, time))),
        (Function::Part(part), [Value::Span(length)]) => of_span(part, *length),
        (_, _) => Err(unsuited("this function", arguments.first().unwrap_or(&Value::Null))),
    }
}

fn size(value: &Value, budget: &Budget<'_>) -> Result<Value, EvalError> {
    let size = match value {
        Value::Text(text) => {
            budget.read_text(text.len())?;
            text.chars().count()
        }
        Value::List(items) => items.len(),
        Value::Map(entries) => entries.len(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Double(_) | Value::Time(_) | Value::Span(_) => {
            return Err(unsuited("size()", value));
        }
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn texts(
    text: &Value,
    part: &Value,
    budget: &Budget<'_>,
    test: impl Fn(&str, &str) -> bool,
) -> Result<Value, EvalError> {
    match (text, part) {
        (Value::Text(text), Value::Text(part)) => {
            budget.read_text(text.len() + part.len())?;
            Ok(Value::Bool(test(text, part)))
        }
        (_, _) => Err(EvalError::new(format!(
            "this function needs two strings, not {} and {}",
            text.kind(),
            part.kind()
        ))),
    }
}

fn changed(value: &Value, budget: &Budget<'_>, change: impl Fn(&str) -> String) -> Result<Value, EvalError> {
    match value {
        Value::Text(text) => {
            budget.build_text(text.len())?;
            Ok(Value::text(change(text)))
        }
        other => Err(unsuited("this function", other)),
    }
}

/// `string()`. A text is returned unchanged; numbers and times are short.
fn text(value: &Value, budget: &Budget<'_>) -> Result<Value, EvalError> {
    match value {
        Value::Text(text) => Ok(Value::Text(Arc::clone(text))),
        other => {
            budget.build_text(SCALAR_TEXT)?;
            plain_text(other).map(Value::text)
        }
    }
}

/// Approximate text length of a number, a time or a duration.
pub(super) const SCALAR_TEXT: usize = 64;

/// Longest text of a number, a time or a duration; a longer text is refused without parsing.
const LONGEST_SCALAR: usize = 1_024;

/// Checks the length of a text that is parsed as a scalar, and charges for parsing even if it fails.
fn scalar<'v>(text: &'v str, budget: &Budget<'_>, refusal: &str) -> Result<&'v str, EvalError> {
    // Parsing a number costs more per byte than comparing a text.
    budget.spend(1 + text.len().min(LONGEST_SCALAR) as u64 / 4)?;
    if text.len() > LONGEST_SCALAR { Err(EvalError::new(refusal)) } else { Ok(text) }
}

fn int(value: &Value, budget: &Budget<'_>) -> Result<Value, EvalError> {
    match value {
        Value::Int(int) => Ok(Value::Int(*int)),
        // 2^63 itself is representable as a double and is already out of range.
        Value::Double(double) if *double >= -(2f64.powi(63)) && *double < 2f64.powi(63) => {
            #[expect(clippy::cast_possible_truncation, reason = "the range was just checked")]
            let int = *double as i64;
            Ok(Value::Int(int))
        }
        Value::Double(_) => Err(EvalError::new("the number does not fit an int")),
        Value::Text(text) => {
            const REFUSAL: &str = "the string is not an int";
            scalar(text, budget, REFUSAL)?.parse().map(Value::Int).map_err(|_| EvalError::new(REFUSAL))
        }
        Value::Time(time) => Ok(Value::Int(time.timestamp())),
        Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) | Value::Span(_) => {
            Err(unsuited("int()", value))
        }
    }
}

fn double(value: &Value, budget: &Budget<'_>) -> Result<Value, EvalError> {
    if let Some(double) = number::as_double(value) {
        return Ok(Value::Double(double));
    }
    match value {
        Value::Text(text) => {
            const REFUSAL: &str = "the string is not a number";
            let parsed = scalar(text, budget, REFUSAL)?.parse().map_err(|_| EvalError::new(REFUSAL))?;
            number::finite(parsed)
        }
        other => Err(unsuited("double()", other)),
    }
}

/// A scalar as text: the result of `string()` and the form in a text with `${…}`.
pub(super) fn plain_text(value: &Value) -> Result<String, EvalError> {
    match value {
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Int(int) => Ok(int.to_string()),
        Value::Double(double) => Ok(double.to_string()),
        Value::Text(text) => Ok(text.as_ref().to_owned()),
        Value::Time(time) => Ok(time_text(time)),
        Value::Span(length) => Ok(span::format(*length)),
        Value::Null | Value::List(_) | Value::Map(_) => Err(unsuited("string()", value)),
    }
}

fn boolean(value: &Value, budget: &Budget<'_>) -> Result<Value, EvalError> {
    match value {
        Value::Bool(truth) => Ok(Value::Bool(*truth)),
        Value::Text(text) => {
            const REFUSAL: &str = "the string is neither true nor false";
            scalar(text, budget, REFUSAL)?.parse().map(Value::Bool).map_err(|_| EvalError::new(REFUSAL))
        }
        other => Err(unsuited("bool()", other)),
    }
}

fn timestamp(value: &Value, budget: &Budget<'_>) -> Result<Value, EvalError> {
    match value {
        Value::Time(time) => Ok(Value::Time(*time)),
        Value::Text(text) => {
            const REFUSAL: &str = "the string is not a time like 2026-01-31T12:00:00Z";
            DateTime::parse_from_rfc3339(scalar(text, budget, REFUSAL)?)
                .map(|time| Value::Time(time.with_timezone(&Utc)))
                .map_err(|_| EvalError::new(REFUSAL))
        }
        Value::Int(seconds) => DateTime::from_timestamp(*seconds, 0)
            .map(Value::Time)
            .ok_or_else(|| EvalError::new("the number does not fit a time")),
        other => Err(unsuited("timestamp()", other)),
    }
}

fn duration(value: &Value, budget: &Budget<'_>) -> Result<Value, EvalError> {
    match value {
        Value::Span(length) => Ok(Value::Span(*length)),
        Value::Text(text) => {
            const REFUSAL: &str = "the string is not a duration like 1h30m";
            span::parse(scalar(text, budget, REFUSAL)?)
                .map(Value::Span)
                .ok_or_else(|| EvalError::new(REFUSAL))
        }
        other => Err(unsuited("duration()", other)),
    }
}

fn of_time(part: TimePart, time: &DateTime<Utc>) -> i64 {
    match part {
        TimePart::FullYear => i64::from(time.year()),
        TimePart::Month => i64::from(time.month0()),
        TimePart::Date => i64::from(time.day()),
        TimePart::DayOfMonth => i64::from(time.day0()),
        TimePart::DayOfWeek => i64::from(time.weekday().num_days_from_sunday()),
        TimePart::DayOfYear => i64::from(time.ordinal0()),
        TimePart::Hours => i64::from(time.hour()),
        TimePart::Minutes => i64::from(time.minute()),
        TimePart::Seconds => i64::from(time.second()),
        TimePart::Milliseconds => i64::from(time.timestamp_subsec_millis()),
    }
}

fn of_span(part: TimePart, length: chrono::TimeDelta) -> Result<Value, EvalError> {
    let value = match part {
        TimePart::Hours => length.num_hours(),
        TimePart::Minutes => length.num_minutes(),
        TimePart::Seconds => length.num_seconds(),
        TimePart::Milliseconds => length.num_milliseconds() % 1000,
        TimePart::FullYear
        | TimePart::Month
        | TimePart::Date
        | TimePart::DayOfMonth
        | TimePart::DayOfWeek
        | TimePart::DayOfYear => return Err(EvalError::new("a duration has no date")),
    };
    Ok(Value::Int(value))
}

fn unsuited(function: &str, value: &Value) -> EvalError {
    EvalError::new(format!("{function} does not work on {}", value.kind()))
}

//! The functions of expressions: the CEL standard functions that apply to JSON data.
//!
//! Absent on purpose: bytes, unsigned numbers, time zones, and anything that reads a clock.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a value of any kind but the wanted one is an error, including future kinds"
)]

use std::sync::Arc;

use chrono::{DateTime, Datelike, Timelike, Utc};

use super::budget::ExprBudget;
use super::value::time_text;
use super::{CelValue, EvalError, cel_duration, number};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CelFunction {
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
pub(super) enum CallSyntax {
    /// `size(x)`
    Global,
    /// `x.size()`
    Member,
}

const FUNCTIONS: &[(&str, CelFunction, &[CallSyntax])] = &[
    ("size", CelFunction::Size, &[CallSyntax::Global, CallSyntax::Member]),
    ("contains", CelFunction::Contains, &[CallSyntax::Member]),
    ("startsWith", CelFunction::StartsWith, &[CallSyntax::Member]),
    ("endsWith", CelFunction::EndsWith, &[CallSyntax::Member]),
    ("matches", CelFunction::Matches, &[CallSyntax::Global, CallSyntax::Member]),
    ("lowerAscii", CelFunction::LowerAscii, &[CallSyntax::Member]),
    ("upperAscii", CelFunction::UpperAscii, &[CallSyntax::Member]),
    ("trim", CelFunction::Trim, &[CallSyntax::Member]),
    ("int", CelFunction::Int, &[CallSyntax::Global]),
    ("double", CelFunction::Double, &[CallSyntax::Global]),
    ("string", CelFunction::Text, &[CallSyntax::Global]),
    ("bool", CelFunction::Bool, &[CallSyntax::Global]),
    ("dyn", CelFunction::Dyn, &[CallSyntax::Global]),
    ("timestamp", CelFunction::Timestamp, &[CallSyntax::Global]),
    ("duration", CelFunction::Duration, &[CallSyntax::Global]),
    ("getFullYear", CelFunction::Part(TimePart::FullYear), &[CallSyntax::Member]),
    ("getMonth", CelFunction::Part(TimePart::Month), &[CallSyntax::Member]),
    ("getDate", CelFunction::Part(TimePart::Date), &[CallSyntax::Member]),
    ("getDayOfMonth", CelFunction::Part(TimePart::DayOfMonth), &[CallSyntax::Member]),
    ("getDayOfWeek", CelFunction::Part(TimePart::DayOfWeek), &[CallSyntax::Member]),
    ("getDayOfYear", CelFunction::Part(TimePart::DayOfYear), &[CallSyntax::Member]),
    ("getHours", CelFunction::Part(TimePart::Hours), &[CallSyntax::Member]),
    ("getMinutes", CelFunction::Part(TimePart::Minutes), &[CallSyntax::Member]),
    ("getSeconds", CelFunction::Part(TimePart::Seconds), &[CallSyntax::Member]),
    ("getMilliseconds", CelFunction::Part(TimePart::Milliseconds), &[CallSyntax::Member]),
];

impl CelFunction {
    pub(super) fn by_name(name: &str, call: CallSyntax) -> Option<Self> {
        FUNCTIONS
            .iter()
            .find(|(known, _, calls)| *known == name && calls.contains(&call))
            .map(|(_, function, _)| *function)
    }

    pub(super) fn names_for(call: CallSyntax) -> impl Iterator<Item = &'static str> {
        FUNCTIONS.iter().filter(move |(_, _, calls)| calls.contains(&call)).map(|(name, _, _)| *name)
    }

    /// Whether the function takes `arity` arguments. The receiver counts as an argument.
    pub(super) fn accepts_arity(self, arity: usize) -> bool {
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

pub(super) fn call_function(
    function: CelFunction,
    arguments: &[CelValue],
    budget: &ExprBudget<'_>,
) -> Result<CelValue, EvalError> {
    match (function, arguments) {
        (CelFunction::Size, [value]) => size_of_value(value, budget),
        (CelFunction::Contains, [text, part]) => {
            // The search reads most bytes more than once.
            if let CelValue::Text(text) = text {
                budget.read_text(text.len())?;
            }
            compare_texts(text, part, budget, |text, part| text.contains(part))
        }
        (CelFunction::StartsWith, [text, part]) => {
            compare_texts(text, part, budget, |text, part| text.starts_with(part))
        }
        (CelFunction::EndsWith, [text, part]) => {
            compare_texts(text, part, budget, |text, part| text.ends_with(part))
        }
        (CelFunction::LowerAscii, [value]) => transform_text(value, budget, |text| text.to_ascii_lowercase()),
        (CelFunction::UpperAscii, [value]) => transform_text(value, budget, |text| text.to_ascii_uppercase()),
        (CelFunction::Trim, [value]) => transform_text(value, budget, |text| text.trim().to_owned()),
        (CelFunction::Int, [value]) => to_int(value, budget),
        (CelFunction::Double, [value]) => to_double(value, budget),
        (CelFunction::Text, [value]) => to_text(value, budget),
        (CelFunction::Bool, [value]) => to_bool(value, budget),
        (CelFunction::Dyn, [value]) => Ok(value.clone()),
        (CelFunction::Timestamp, [value]) => to_timestamp(value, budget),
        (CelFunction::Duration, [value]) => to_duration(value, budget),
        (CelFunction::Part(part), [CelValue::Time(time)]) => Ok(CelValue::Int(time_part(part, time))),
        (CelFunction::Part(part), [CelValue::Span(length)]) => span_part(part, *length),
        (_, _) => Err(unsuited_error("this function", arguments.first().unwrap_or(&CelValue::Null))),
    }
}

fn size_of_value(value: &CelValue, budget: &ExprBudget<'_>) -> Result<CelValue, EvalError> {
    let size = match value {
        CelValue::Text(text) => {
            budget.read_text(text.len())?;
            text.chars().count()
        }
        CelValue::List(items) => items.len(),
        CelValue::Map(entries) => entries.len(),
        CelValue::Null
        | CelValue::Bool(_)
        | CelValue::Int(_)
        | CelValue::Double(_)
        | CelValue::Time(_)
        | CelValue::Span(_) => {
            return Err(unsuited_error("size()", value));
        }
    };
    Ok(CelValue::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn compare_texts(
    text: &CelValue,
    part: &CelValue,
    budget: &ExprBudget<'_>,
    test: impl Fn(&str, &str) -> bool,
) -> Result<CelValue, EvalError> {
    match (text, part) {
        (CelValue::Text(text), CelValue::Text(part)) => {
            budget.read_text(text.len() + part.len())?;
            Ok(CelValue::Bool(test(text, part)))
        }
        (_, _) => Err(EvalError::new(format!(
            "this function needs two strings, not {} and {}",
            text.kind(),
            part.kind()
        ))),
    }
}

fn transform_text(
    value: &CelValue,
    budget: &ExprBudget<'_>,
    change: impl Fn(&str) -> String,
) -> Result<CelValue, EvalError> {
    match value {
        CelValue::Text(text) => {
            budget.build_text(text.len())?;
            Ok(CelValue::text(change(text)))
        }
        other => Err(unsuited_error("this function", other)),
    }
}

/// `string()`. A text is returned unchanged; numbers and times are short.
fn to_text(value: &CelValue, budget: &ExprBudget<'_>) -> Result<CelValue, EvalError> {
    match value {
        CelValue::Text(text) => Ok(CelValue::Text(Arc::clone(text))),
        other => {
            budget.build_text(SCALAR_TEXT)?;
            plain_text(other).map(CelValue::text)
        }
    }
}

/// Approximate text length of a number, a time or a duration.
pub(super) const SCALAR_TEXT: usize = 64;

/// Longest text of a number, a time or a duration; a longer text is refused without parsing.
const LONGEST_SCALAR: usize = 1_024;

/// Checks the length of a text that is parsed as a scalar, and charges for parsing even if it fails.
fn check_scalar<'v>(text: &'v str, budget: &ExprBudget<'_>, refusal: &str) -> Result<&'v str, EvalError> {
    // Parsing a number costs more per byte than comparing a text.
    budget.spend(1 + text.len().min(LONGEST_SCALAR) as u64 / 4)?;
    if text.len() > LONGEST_SCALAR { Err(EvalError::new(refusal)) } else { Ok(text) }
}

fn to_int(value: &CelValue, budget: &ExprBudget<'_>) -> Result<CelValue, EvalError> {
    match value {
        CelValue::Int(int) => Ok(CelValue::Int(*int)),
        // 2^63 itself is representable as a double and is already out of range.
        CelValue::Double(double) if *double >= -(2f64.powi(63)) && *double < 2f64.powi(63) => {
            #[expect(clippy::cast_possible_truncation, reason = "the range was just checked")]
            let int = *double as i64;
            Ok(CelValue::Int(int))
        }
        CelValue::Double(_) => Err(EvalError::new("the number does not fit an int")),
        CelValue::Text(text) => {
            const REFUSAL: &str = "the string is not an int";
            check_scalar(text, budget, REFUSAL)?
                .parse()
                .map(CelValue::Int)
                .map_err(|_| EvalError::new(REFUSAL))
        }
        CelValue::Time(time) => Ok(CelValue::Int(time.timestamp())),
        CelValue::Null | CelValue::Bool(_) | CelValue::List(_) | CelValue::Map(_) | CelValue::Span(_) => {
            Err(unsuited_error("int()", value))
        }
    }
}

fn to_double(value: &CelValue, budget: &ExprBudget<'_>) -> Result<CelValue, EvalError> {
    if let Some(double) = number::as_double(value) {
        return Ok(CelValue::Double(double));
    }
    match value {
        CelValue::Text(text) => {
            const REFUSAL: &str = "the string is not a number";
            let parsed = check_scalar(text, budget, REFUSAL)?.parse().map_err(|_| EvalError::new(REFUSAL))?;
            number::check_finite(parsed)
        }
        other => Err(unsuited_error("double()", other)),
    }
}

/// A scalar as text: the result of `string()` and the form in a text with `${…}`.
pub(super) fn plain_text(value: &CelValue) -> Result<String, EvalError> {
    match value {
        CelValue::Bool(truth) => Ok(truth.to_string()),
        CelValue::Int(int) => Ok(int.to_string()),
        CelValue::Double(double) => Ok(double.to_string()),
        CelValue::Text(text) => Ok(text.as_ref().to_owned()),
        CelValue::Time(time) => Ok(time_text(time)),
        CelValue::Span(length) => Ok(cel_duration::format_span(*length)),
        CelValue::Null | CelValue::List(_) | CelValue::Map(_) => Err(unsuited_error("string()", value)),
    }
}

fn to_bool(value: &CelValue, budget: &ExprBudget<'_>) -> Result<CelValue, EvalError> {
    match value {
        CelValue::Bool(truth) => Ok(CelValue::Bool(*truth)),
        CelValue::Text(text) => {
            const REFUSAL: &str = "the string is neither true nor false";
            check_scalar(text, budget, REFUSAL)?
                .parse()
                .map(CelValue::Bool)
                .map_err(|_| EvalError::new(REFUSAL))
        }
        other => Err(unsuited_error("bool()", other)),
    }
}

fn to_timestamp(value: &CelValue, budget: &ExprBudget<'_>) -> Result<CelValue, EvalError> {
    match value {
        CelValue::Time(time) => Ok(CelValue::Time(*time)),
        CelValue::Text(text) => {
            const REFUSAL: &str = "the string is not a time like 2026-01-31T12:00:00Z";
            DateTime::parse_from_rfc3339(check_scalar(text, budget, REFUSAL)?)
                .map(|time| CelValue::Time(time.with_timezone(&Utc)))
                .map_err(|_| EvalError::new(REFUSAL))
        }
        CelValue::Int(seconds) => DateTime::from_timestamp(*seconds, 0)
            .map(CelValue::Time)
            .ok_or_else(|| EvalError::new("the number does not fit a time")),
        other => Err(unsuited_error("timestamp()", other)),
    }
}

fn to_duration(value: &CelValue, budget: &ExprBudget<'_>) -> Result<CelValue, EvalError> {
    match value {
        CelValue::Span(length) => Ok(CelValue::Span(*length)),
        CelValue::Text(text) => {
            const REFUSAL: &str = "the string is not a duration like 1h30m";
            cel_duration::parse(check_scalar(text, budget, REFUSAL)?)
                .map(CelValue::Span)
                .ok_or_else(|| EvalError::new(REFUSAL))
        }
        other => Err(unsuited_error("duration()", other)),
    }
}

fn time_part(part: TimePart, time: &DateTime<Utc>) -> i64 {
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

fn span_part(part: TimePart, length: chrono::TimeDelta) -> Result<CelValue, EvalError> {
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
    Ok(CelValue::Int(value))
}

fn unsuited_error(function: &str, value: &CelValue) -> EvalError {
    EvalError::new(format!("{function} does not work on {}", value.kind()))
}

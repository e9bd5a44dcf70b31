//! CEL values and their JSON form.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use super::budget::ExprBudget;
use super::{EvalError, cel_duration, number};

/// A CEL value. Cloning is cheap. Maps are ordered by key, so that iterating one is deterministic.
#[derive(Debug, Clone, PartialEq)]
pub enum CelValue {
    Null,
    Bool(bool),
    Int(i64),
    /// Always finite: an operation that would give NaN or infinity is an error.
    Double(f64),
    Text(Arc<str>),
    List(Arc<Vec<CelValue>>),
    Map(Arc<BTreeMap<String, CelValue>>),
    Time(DateTime<Utc>),
    Span(TimeDelta),
}

impl CelValue {
    pub(super) fn text(text: impl AsRef<str>) -> Self {
        Self::Text(text.as_ref().into())
    }

    /// Equality as `==` in expressions: an int equals the double of the same value. Values that are too
    /// expensive to compare within the budget are unequal.
    pub fn equals_within(&self, other: &Self, budget: &ExprBudget<'_>) -> bool {
        number::values_equal(self, other, budget).unwrap_or(false)
    }

    /// The kind of the value, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "an int",
            Self::Double(_) => "a double",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Time(_) => "a timestamp",
            Self::Span(_) => "a duration",
        }
    }

    /// Appends the value as JSON; times and durations become strings. Refuses to grow `out` past `cap`.
    pub(super) fn write_json(
        &self,
        out: &mut String,
        cap: usize,
        budget: &ExprBudget<'_>,
    ) -> Result<(), EvalError> {
        budget.spend(1)?;
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Int(int) => out.push_str(&int.to_string()),
            Self::Double(double) => out.push_str(&json_number(*double)?),
            Self::Text(text) => push_json_text(out, text, cap, budget)?,
            Self::Time(time) => push_json_text(out, &time_text(time), cap, budget)?,
            Self::Span(length) => push_json_text(out, &cel_duration::format_span(*length), cap, budget)?,
            Self::List(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write_json(out, cap, budget)?;
                }
                out.push(']');
            }
            Self::Map(entries) => {
                out.push('{');
                for (n, (key, value)) in entries.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    push_json_text(out, key, cap, budget)?;
                    out.push(':');
                    value.write_json(out, cap, budget)?;
                }
                out.push('}');
            }
        }
        if out.len() > cap {
            return Err(too_large(cap));
        }
        Ok(())
    }
}

fn too_large(cap: usize) -> EvalError {
    EvalError::new(format!("the value is larger than {} KiB", cap / 1024))
}

pub(super) fn time_text(time: &DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

pub(super) fn json_number(double: f64) -> Result<String, EvalError> {
    if !double.is_finite() {
        return Err(EvalError::new("the result is not a finite number"));
    }
    serde_json::to_string(&double).map_err(|error| EvalError::new(error.to_string()))
}

/// Appends a text as JSON. A text that cannot fit is refused before it is copied.
pub(super) fn push_json_text(
    out: &mut String,
    text: &str,
    cap: usize,
    budget: &ExprBudget<'_>,
) -> Result<(), EvalError> {
    if out.len() + text.len() > cap {
        return Err(too_large(cap));
    }
    budget.read_text(text.len())?;
    // Serializing a text into memory is infallible.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
    Ok(())
}

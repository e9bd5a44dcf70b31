//! Arithmetic, order and equality.
//!
//! Two ints stay ints and overflow is an error; if one operand is a double, both are promoted to double, and
//! a result that is not finite is an error. Equality never fails: values of different kinds are unequal.

use std::cmp::Ordering;

use super::budget::Budget;
use super::program::Binary;
use super::{EvalError, Value};

pub(super) fn binary(
    operator: Binary,
    left: &Value,
    right: &Value,
    budget: &Budget<'_>,
) -> Result<Value, EvalError> {
    match operator {
        Binary::Add => add(left, right, budget),
        Binary::Subtract => subtract(left, right),
        Binary::Multiply | Binary::Divide | Binary::Modulo => numeric(operator, left, right),
        Binary::Equal => Ok(Value::Bool(equal(left, right, budget)?)),
        Binary::NotEqual => Ok(Value::Bool(!equal(left, right, budget)?)),
        Binary::Less => Ok(Value::Bool(order(operator, left, right, budget)?.is_lt())),
        Binary::LessEqual => Ok(Value::Bool(order(operator, left, right, budget)?.is_le())),
        Binary::Greater => Ok(Value::Bool(order(operator, left, right, budget)?.is_gt())),
        Binary::GreaterEqual => Ok(Value::Bool(order(operator, left, right, budget)?.is_ge())),
        Binary::In => contains(left, right, budget),
    }
}

pub(super) fn negate(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::Int(int) => int.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(double) => Ok(Value::Double(-double)),
        Value::Span(length) => Ok(Value::Span(-*length)),
        Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) | Value::Time(_) => {
            Err(EvalError::new(format!("cannot negate {}", value.kind())))
        }
    }
}

fn add(left: &Value, right: &Value, budget: &Budget<'_>) -> Result<Value, EvalError> {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => {
            budget.build_text(a.len() + b.len())?;
            let mut both = String::with_capacity(a.len() + b.len());
            both.push_str(a);
            both.push_str(b);
            Ok(Value::text(both))
        }
        (Value::List(a), Value::List(b)) => {
            budget.spend((a.len() + b.len()) as u64)?;
            budget.build_list(a.len() + b.len())?;
            Ok(Value::List(a.iter().chain(b.iter()).cloned().collect::<Vec<_>>().into()))
        }
        (Value::Time(time), Value::Span(length)) | (Value::Span(length), Value::Time(time)) => {
            time.checked_add_signed(*length).map(Value::Time).ok_or_else(overflow)
        }
        (Value::Span(a), Value::Span(b)) => a.checked_add(b).map(Value::Span).ok_or_else(overflow),
        (_, _) => numeric(Binary::Add, left, right),
    }
}

fn subtract(left: &Value, right: &Value) -> Result<Value, EvalError> {
    match (left, right) {
        (Value::Time(a), Value::Time(b)) => Ok(Value::Span(a.signed_duration_since(*b))),
        (Value::Time(time), Value::Span(length)) => {
            time.checked_sub_signed(*length).map(Value::Time).ok_or_else(overflow)
        }
        (Value::Span(a), Value::Span(b)) => a.checked_sub(b).map(Value::Span).ok_or_else(overflow),
        (_, _) => numeric(Binary::Subtract, left, right),
    }
}

fn numeric(operator: Binary, left: &Value, right: &Value) -> Result<Value, EvalError> {
    if let (Value::Int(a), Value::Int(b)) = (left, right) {
        return integer(operator, *a, *b);
    }
    let (Some(a), Some(b)) = (as_double(left), as_double(right)) else {
        return Err(mismatch(operator, left, right));
    };
    let result = match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide if b == 0.0 => return Err(EvalError::new("division by zero")),
        Binary::Divide => a / b,
        Binary::Modulo => return Err(EvalError::new("% works on ints only")),
        Binary::Equal
        | Binary::NotEqual
        | Binary::Less
        | Binary::LessEqual
        | Binary::Greater
        | Binary::GreaterEqual
        | Binary::In => return Err(mismatch(operator, left, right)),
    };
    finite(result)
}

fn integer(operator: Binary, a: i64, b: i64) -> Result<Value, EvalError> {
    let result = match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Divide | Binary::Modulo if b == 0 => return Err(EvalError::new("division by zero")),
        Binary::Divide => a.checked_div(b),
        Binary::Modulo => a.checked_rem(b),
        Binary::Equal
        | Binary::NotEqual
        | Binary::Less
        | Binary::LessEqual
        | Binary::Greater
        | Binary::GreaterEqual
        | Binary::In => return Err(mismatch(operator, &Value::Int(a), &Value::Int(b))),
    };
    result.map(Value::Int).ok_or_else(overflow)
}

/// Refuses a double that is not finite.
pub(super) fn finite(double: f64) -> Result<Value, EvalError> {
    if double.is_finite() {
        Ok(Value::Double(double))
    } else {
        Err(EvalError::new("the result is not a finite number"))
    }
}

fn order(operator: Binary, left: &Value, right: &Value, budget: &Budget<'_>) -> Result<Ordering, EvalError> {
    if let (Value::Text(a), Value::Text(b)) = (left, right) {
        budget.read_text(a.len().min(b.len()))?;
    }
    let ordering = match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Time(a), Value::Time(b)) => Some(a.cmp(b)),
        (Value::Span(a), Value::Span(b)) => Some(a.cmp(b)),
        (_, _) => match (as_double(left), as_double(right)) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            (None, _) | (_, None) => None,
        },
    };
    ordering.ok_or_else(|| mismatch(operator, left, right))
}

pub(super) fn equal(left: &Value, right: &Value, budget: &Budget<'_>) -> Result<bool, EvalError> {
    budget.spend(1)?;
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => Ok(a == b),
        (Value::Text(a), Value::Text(b)) => {
            budget.read_text(a.len().min(b.len()))?;
            Ok(a == b)
        }
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for ((key_a, a), (key_b, b)) in a.iter().zip(b.iter()) {
                budget.read_text(key_a.len().min(key_b.len()))?;
                if key_a != key_b || !equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (_, _) => match (as_double(left), as_double(right)) {
            (Some(a), Some(b)) => Ok(a == b),
            (None, _) | (_, None) => Ok(left == right),
        },
    }
}

fn contains(needle: &Value, haystack: &Value, budget: &Budget<'_>) -> Result<Value, EvalError> {
    match haystack {
        Value::List(items) => {
            for item in items.iter() {
                if equal(needle, item, budget)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        Value::Map(entries) => match needle {
            Value::Text(key) => {
                budget.read_text(key.len())?;
                Ok(Value::Bool(entries.contains_key(&**key)))
            }
            // CEL allows such map keys; our maps come from JSON and have string keys only.
            Value::Bool(_) | Value::Int(_) | Value::Double(_) => Ok(Value::Bool(false)),
            Value::Null | Value::List(_) | Value::Map(_) | Value::Time(_) | Value::Span(_) => {
                Err(mismatch(Binary::In, needle, haystack))
            }
        },
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Double(_)
        | Value::Text(_)
        | Value::Time(_)
        | Value::Span(_) => Err(mismatch(Binary::In, needle, haystack)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "promotion to double is the documented rule")]
pub(super) fn as_double(value: &Value) -> Option<f64> {
    match value {
        Value::Int(int) => Some(*int as f64),
        Value::Double(double) => Some(*double),
        Value::Null
        | Value::Bool(_)
        | Value::Text(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Time(_)
        | Value::Span(_) => None,
    }
}

fn overflow() -> EvalError {
    EvalError::new("the result is out of range")
}

fn mismatch(operator: Binary, left: &Value, right: &Value) -> EvalError {
    EvalError::new(format!("cannot compute {} {} {}", left.kind(), operator.symbol(), right.kind()))
}

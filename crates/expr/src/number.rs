//! Arithmetic, order and equality.
//!
//! Two ints stay ints and overflow is an error; if one operand is a double, both are promoted to double, and
//! a result that is not finite is an error. Equality never fails: values of different kinds are unequal.

use std::cmp::Ordering;

use super::budget::ExprBudget;
use super::operator::BinaryOperator;
use super::{CelValue, EvalError};

pub(super) fn eval_binary(
    operator: BinaryOperator,
    left: &CelValue,
    right: &CelValue,
    budget: &ExprBudget<'_>,
) -> Result<CelValue, EvalError> {
    match operator {
        BinaryOperator::Add => add(left, right, budget),
        BinaryOperator::Subtract => subtract(left, right),
        BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo => {
            eval_numeric(operator, left, right)
        }
        BinaryOperator::Equal => Ok(CelValue::Bool(values_equal(left, right, budget)?)),
        BinaryOperator::NotEqual => Ok(CelValue::Bool(!values_equal(left, right, budget)?)),
        BinaryOperator::Less => Ok(CelValue::Bool(order_values(operator, left, right, budget)?.is_lt())),
        BinaryOperator::LessEqual => Ok(CelValue::Bool(order_values(operator, left, right, budget)?.is_le())),
        BinaryOperator::Greater => Ok(CelValue::Bool(order_values(operator, left, right, budget)?.is_gt())),
        BinaryOperator::GreaterEqual => {
            Ok(CelValue::Bool(order_values(operator, left, right, budget)?.is_ge()))
        }
        BinaryOperator::In => contains_value(left, right, budget),
    }
}

pub(super) fn negate(value: &CelValue) -> Result<CelValue, EvalError> {
    match value {
        CelValue::Int(int) => int.checked_neg().map(CelValue::Int).ok_or_else(overflow_error),
        CelValue::Double(double) => Ok(CelValue::Double(-double)),
        CelValue::Span(length) => Ok(CelValue::Span(-*length)),
        CelValue::Null
        | CelValue::Bool(_)
        | CelValue::Text(_)
        | CelValue::List(_)
        | CelValue::Map(_)
        | CelValue::Time(_) => Err(EvalError::new(format!("cannot negate {}", value.kind()))),
    }
}

fn add(left: &CelValue, right: &CelValue, budget: &ExprBudget<'_>) -> Result<CelValue, EvalError> {
    match (left, right) {
        (CelValue::Text(a), CelValue::Text(b)) => {
            budget.build_text(a.len() + b.len())?;
            let mut both = String::with_capacity(a.len() + b.len());
            both.push_str(a);
            both.push_str(b);
            Ok(CelValue::text(both))
        }
        (CelValue::List(a), CelValue::List(b)) => {
            budget.spend((a.len() + b.len()) as u64)?;
            budget.build_list(a.len() + b.len())?;
            Ok(CelValue::List(a.iter().chain(b.iter()).cloned().collect::<Vec<_>>().into()))
        }
        (CelValue::Time(time), CelValue::Span(length)) | (CelValue::Span(length), CelValue::Time(time)) => {
            time.checked_add_signed(*length).map(CelValue::Time).ok_or_else(overflow_error)
        }
        (CelValue::Span(a), CelValue::Span(b)) => {
            a.checked_add(b).map(CelValue::Span).ok_or_else(overflow_error)
        }
        (_, _) => eval_numeric(BinaryOperator::Add, left, right),
    }
}

fn subtract(left: &CelValue, right: &CelValue) -> Result<CelValue, EvalError> {
    match (left, right) {
        (CelValue::Time(a), CelValue::Time(b)) => Ok(CelValue::Span(a.signed_duration_since(*b))),
        (CelValue::Time(time), CelValue::Span(length)) => {
            time.checked_sub_signed(*length).map(CelValue::Time).ok_or_else(overflow_error)
        }
        (CelValue::Span(a), CelValue::Span(b)) => {
            a.checked_sub(b).map(CelValue::Span).ok_or_else(overflow_error)
        }
        (_, _) => eval_numeric(BinaryOperator::Subtract, left, right),
    }
}

fn eval_numeric(operator: BinaryOperator, left: &CelValue, right: &CelValue) -> Result<CelValue, EvalError> {
    if let (CelValue::Int(a), CelValue::Int(b)) = (left, right) {
        return eval_integer(operator, *a, *b);
    }
    let (Some(a), Some(b)) = (as_double(left), as_double(right)) else {
        return Err(mismatch_error(operator, left, right));
    };
    let result = match operator {
        BinaryOperator::Add => a + b,
        BinaryOperator::Subtract => a - b,
        BinaryOperator::Multiply => a * b,
        BinaryOperator::Divide if b == 0.0 => return Err(EvalError::new("division by zero")),
        BinaryOperator::Divide => a / b,
        BinaryOperator::Modulo => return Err(EvalError::new("% works on ints only")),
        BinaryOperator::Equal
        | BinaryOperator::NotEqual
        | BinaryOperator::Less
        | BinaryOperator::LessEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterEqual
        | BinaryOperator::In => return Err(mismatch_error(operator, left, right)),
    };
    check_finite(result)
}

fn eval_integer(operator: BinaryOperator, a: i64, b: i64) -> Result<CelValue, EvalError> {
    let result = match operator {
        BinaryOperator::Add => a.checked_add(b),
        BinaryOperator::Subtract => a.checked_sub(b),
        BinaryOperator::Multiply => a.checked_mul(b),
        BinaryOperator::Divide | BinaryOperator::Modulo if b == 0 => {
            return Err(EvalError::new("division by zero"));
        }
        BinaryOperator::Divide => a.checked_div(b),
        BinaryOperator::Modulo => a.checked_rem(b),
        BinaryOperator::Equal
        | BinaryOperator::NotEqual
        | BinaryOperator::Less
        | BinaryOperator::LessEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterEqual
        | BinaryOperator::In => return Err(mismatch_error(operator, &CelValue::Int(a), &CelValue::Int(b))),
    };
    result.map(CelValue::Int).ok_or_else(overflow_error)
}

/// Refuses a double that is not finite.
pub(super) fn check_finite(double: f64) -> Result<CelValue, EvalError> {
    if double.is_finite() {
        Ok(CelValue::Double(double))
    } else {
        Err(EvalError::new("the result is not a finite number"))
    }
}

fn order_values(
    operator: BinaryOperator,
    left: &CelValue,
    right: &CelValue,
    budget: &ExprBudget<'_>,
) -> Result<Ordering, EvalError> {
    if let (CelValue::Text(a), CelValue::Text(b)) = (left, right) {
        budget.read_text(a.len().min(b.len()))?;
    }
    let ordering = match (left, right) {
        (CelValue::Int(a), CelValue::Int(b)) => Some(a.cmp(b)),
        (CelValue::Text(a), CelValue::Text(b)) => Some(a.cmp(b)),
        (CelValue::Bool(a), CelValue::Bool(b)) => Some(a.cmp(b)),
        (CelValue::Time(a), CelValue::Time(b)) => Some(a.cmp(b)),
        (CelValue::Span(a), CelValue::Span(b)) => Some(a.cmp(b)),
        (_, _) => match (as_double(left), as_double(right)) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            (None, _) | (_, None) => None,
        },
    };
    ordering.ok_or_else(|| mismatch_error(operator, left, right))
}

pub(super) fn values_equal(
    left: &CelValue,
    right: &CelValue,
    budget: &ExprBudget<'_>,
) -> Result<bool, EvalError> {
    budget.spend(1)?;
    match (left, right) {
        (CelValue::Int(a), CelValue::Int(b)) => Ok(a == b),
        (CelValue::Text(a), CelValue::Text(b)) => {
            budget.read_text(a.len().min(b.len()))?;
            Ok(a == b)
        }
        (CelValue::List(a), CelValue::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !values_equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (CelValue::Map(a), CelValue::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for ((key_a, a), (key_b, b)) in a.iter().zip(b.iter()) {
                budget.read_text(key_a.len().min(key_b.len()))?;
                if key_a != key_b || !values_equal(a, b, budget)? {
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

fn contains_value(
    needle: &CelValue,
    haystack: &CelValue,
    budget: &ExprBudget<'_>,
) -> Result<CelValue, EvalError> {
    match haystack {
        CelValue::List(items) => {
            for item in items.iter() {
                if values_equal(needle, item, budget)? {
                    return Ok(CelValue::Bool(true));
                }
            }
            Ok(CelValue::Bool(false))
        }
        CelValue::Map(entries) => match needle {
            CelValue::Text(key) => {
                budget.read_text(key.len())?;
                Ok(CelValue::Bool(entries.contains_key(&**key)))
            }
            // CEL allows such map keys; our maps come from JSON and have string keys only.
            CelValue::Bool(_) | CelValue::Int(_) | CelValue::Double(_) => Ok(CelValue::Bool(false)),
            CelValue::Null | CelValue::List(_) | CelValue::Map(_) | CelValue::Time(_) | CelValue::Span(_) => {
                Err(mismatch_error(BinaryOperator::In, needle, haystack))
            }
        },
        CelValue::Null
        | CelValue::Bool(_)
        | CelValue::Int(_)
        | CelValue::Double(_)
        | CelValue::Text(_)
        | CelValue::Time(_)
        | CelValue::Span(_) => Err(mismatch_error(BinaryOperator::In, needle, haystack)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "promotion to double is the documented rule")]
pub(super) fn as_double(value: &CelValue) -> Option<f64> {
    match value {
        CelValue::Int(int) => Some(*int as f64),
        CelValue::Double(double) => Some(*double),
        CelValue::Null
        | CelValue::Bool(_)
        | CelValue::Text(_)
        | CelValue::List(_)
        | CelValue::Map(_)
        | CelValue::Time(_)
        | CelValue::Span(_) => None,
    }
}

fn overflow_error() -> EvalError {
    EvalError::new("the result is out of range")
}

fn mismatch_error(operator: BinaryOperator, left: &CelValue, right: &CelValue) -> EvalError {
    EvalError::new(format!("cannot compute {} {} {}", left.kind(), operator.symbol(), right.kind()))
}

//! Correlation: the key by which signals address an execution.

use millstream_expr::{CelValue, EventScope, ExprBudget, ExprScope};
use millstream_model::context::ExecutionContext;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::compile::Machine;

/// Longest correlation.
pub const MAX_CORRELATION_BYTES: usize = 256;

/// Evaluates `correlate` over a context; null means no correlation yet. An error rejects the event or the
/// creation.
pub(super) fn evaluate_correlation(
    machine: &Machine,
    context: &ExecutionContext,
    budget: &ExprBudget<'_>,
) -> Result<Option<String>, String> {
    let Some(program) = machine.correlate_program() else { return Ok(None) };
    let null = RawJson::null();
    let scope = ExprScope {
        context,
        event: EventScope { name: "", payload: &null, time: Timestamp::EPOCH },
        now: Timestamp::EPOCH,
        results: &std::collections::BTreeMap::new(),
        response: None,
        budget,
    };
    let value = program.evaluate(&scope).map_err(|error| format!("correlate: {error}"))?;
    let text = match &value {
        CelValue::Null => return Ok(None),
        CelValue::Text(text) => text.as_ref().to_owned(),
        CelValue::Int(int) => int.to_string(),
        CelValue::Bool(_)
        | CelValue::Double(_)
        | CelValue::List(_)
        | CelValue::Map(_)
        | CelValue::Time(_)
        | CelValue::Span(_) => {
            return Err(format!("correlate: a string or an integer is needed, not {}", value.kind()));
        }
    };
    check_correlation(&text).map_err(|why| format!("correlate: the value {why}"))?;
    Ok(Some(text))
}

/// Validates a correlation from any source.
pub fn check_correlation(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.len() > MAX_CORRELATION_BYTES {
        return Err(format!("is longer than {MAX_CORRELATION_BYTES} bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err("contains control characters".to_owned());
    }
    Ok(())
}

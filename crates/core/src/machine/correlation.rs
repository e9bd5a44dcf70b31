//! Correlation: the key by which signals address an execution.

use super::compile::Machine;
use crate::expr::{Budget, EventScope, Scope, Value};
use crate::log::Context;
use crate::raw::RawJson;
use crate::time::Timestamp;

/// Longest correlation.
pub const MAX_CORRELATION_BYTES: usize = 256;

/// Evaluates `correlate` over a context; null means no correlation yet. An error rejects the event or the
/// creation.
pub(super) fn correlation(
    machine: &Machine,
    context: &Context,
    budget: &Budget<'_>,
) -> Result<Option<String>, String> {
    let Some(program) = machine.correlate() else { return Ok(None) };
    let null = RawJson::null();
    let scope = Scope {
        context,
        event: EventScope { name: "", payload: &null, time: Timestamp::EPOCH },
        now: Timestamp::EPOCH,
        results: &std::collections::BTreeMap::new(),
        response: None,
        budget,
    };
    let value = program.evaluate(&scope).map_err(|error| format!("correlate: {error}"))?;
    let text = match &value {
        Value::Null => return Ok(None),
        Value::Text(text) => text.as_ref().to_owned(),
        Value::Int(int) => int.to_string(),
        Value::Bool(_)
        | Value::Double(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Time(_)
        | Value::Span(_) => {
            return Err(format!("correlate: a string or an integer is needed, not {}", value.kind()));
        }
    };
    valid_correlation(&text).map_err(|why| format!("correlate: the value {why}"))?;
    Ok(Some(text))
}

/// Validates a correlation from any source.
pub fn valid_correlation(text: &str) -> Result<(), String> {
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

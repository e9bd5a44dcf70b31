//! Deferred rendering: the input of an action whose dependencies have succeeded.

use std::collections::BTreeMap;

use millstream_expr::{BudgetEnd, EvalError, EventScope, ExprBudget, ExprScope, StopRule};
use millstream_model::context::ExecutionContext;
use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::capture::CapturedScope;
use super::compile::Machine;
use super::compiled_action::map_response;

/// Renders the input from the captured scope and the results of the needed actions, complete since
/// `ready_at`. An error means that the action fails permanently without an attempt.
pub fn render_deferred_input(
    machine: &Machine,
    action: &Name,
    scope: &RawJson,
    results: &BTreeMap<Name, RawJson>,
    ready_at: Timestamp,
    stop: StopRule<'_>,
) -> Result<RawJson, RenderError> {
    let compiled = machine
        .compiled_action(action)
        .ok_or_else(|| RenderError::Failed(format!("no action {:?} in this definition", action.as_str())))?;
    let captured: CapturedScope = scope
        .decode()
        .map_err(|error| RenderError::Failed(format!("the stored scope cannot be read: {error}")))?;
    let budget = ExprBudget::of_step(stop);
    let input = compiled
        .render_input(&captured.to_scope(results, &budget), ready_at)
        .map_err(render_error(&budget))?;
    Ok(RawJson::from_value(&input))
}

/// The result of an HTTP action: the response (`{status, headers, body}`), mapped by the `result` template
/// of the definition if there is one.
pub fn map_http_response(
    machine: &Machine,
    action: &Name,
    response: RawJson,
    stop: StopRule<'_>,
) -> Result<RawJson, RenderError> {
    let Some(result) = machine.compiled_action(action).and_then(|compiled| compiled.result.as_ref()) else {
        return Ok(response);
    };
    let budget = ExprBudget::of_step(stop);
    let (null, none) = (RawJson::null(), BTreeMap::new());
    let scope = ExprScope {
        context: &ExecutionContext::new(),
        event: EventScope { name: "", payload: &null, time: Timestamp::EPOCH },
        now: Timestamp::EPOCH,
        results: &none,
        response: None,
        budget: &budget,
    };
    map_response(result, &response, &scope).map_err(render_error(&budget))
}

/// Why rendering failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// Failed by data or expressions: deterministic, the action fails.
    #[error("{0}")]
    Failed(String),
    /// Abandoned by the stop rule: to be rendered again, on another thread or later.
    #[error("the stop rule ended the rendering")]
    Stopped,
}

fn render_error(budget: &ExprBudget<'_>) -> impl Fn(EvalError) -> RenderError {
    move |error| match budget.end() {
        Some(BudgetEnd::Stopped) => RenderError::Stopped,
        Some(BudgetEnd::Work | BudgetEnd::Bytes) | None => RenderError::Failed(error.to_string()),
    }
}

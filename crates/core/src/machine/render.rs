//! The input of an action that had to wait for others, now that their results are known.

use std::collections::BTreeMap;

use super::capture::Captured;
use super::compile::Machine;
use super::compiled_action::mapped;
use crate::expr::{EventScope, Scope};
use crate::id::Name;
use crate::log::Context;
use crate::raw::RawJson;
use crate::time::Timestamp;

/// Renders the input from what the transition left behind and the results of the actions it needs, which
/// it has since `ready_at`. An error means that the action fails for good without an attempt.
pub fn render(
    machine: &Machine,
    action: &Name,
    scope: &RawJson,
    results: &BTreeMap<Name, RawJson>,
    ready_at: Timestamp,
) -> Result<RawJson, String> {
    let compiled = machine
        .compiled_action(action)
        .ok_or_else(|| format!("no action {:?} in this definition", action.as_str()))?;
    let captured: Captured =
        scope.decode().map_err(|error| format!("the stored scope cannot be read: {error}"))?;
    let input = compiled.render(&captured.scope(results), ready_at).map_err(|error| error.to_string())?;
    Ok(RawJson::of(&input))
}

/// The result of an HTTP action, made from the whole answer (`{status, headers, body}`) as the definition
/// says; the answer itself where it says nothing.
pub fn respond(machine: &Machine, action: &Name, response: RawJson) -> Result<RawJson, String> {
    let Some(result) = machine.compiled_action(action).and_then(|compiled| compiled.result.as_ref()) else {
        return Ok(response);
    };
    let (null, none) = (RawJson::null(), BTreeMap::new());
    let scope = Scope {
        context: &Context::new(),
        event: EventScope { name: "", payload: &null, time: Timestamp::EPOCH },
        now: Timestamp::EPOCH,
        results: &none,
        response: None,
    };
    mapped(result, &response, &scope)
}

//! The input of an action that had to wait for others, now that their results are known.

use std::collections::BTreeMap;

use super::capture::Captured;
use super::compile::Machine;
use crate::id::Name;
use crate::raw::RawJson;

/// Renders the input from what the transition left behind and the results of the actions it needs. An
/// error means that the action fails for good without an attempt.
pub fn render(
    machine: &Machine,
    action: &Name,
    scope: &RawJson,
    results: &BTreeMap<Name, RawJson>,
) -> Result<RawJson, String> {
    let compiled = machine
        .compiled_action(action)
        .ok_or_else(|| format!("no action {:?} in this definition", action.as_str()))?;
    let captured: Captured =
        scope.decode().map_err(|error| format!("the stored scope cannot be read: {error}"))?;
    let input = compiled.render(&captured.scope(results)).map_err(|error| error.to_string())?;
    Ok(RawJson::of(&input))
}

//! A definition as it is written: its states and transitions. Its actions are in
//! [`definition_actions`](crate::definition_actions).
//!
//! An optional field is absent and not null: the compiler of definitions refuses null.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition_actions::DefinedAction;
use crate::scalar;
use crate::words::api_words;

api_words! {
    /// sync: callers wait as if they had requested it.
    DefinedMode {
        Async = "async",
        Sync = "sync",
    }
}

/// A definition of dialect 1. Every transition must name an existing state, names may not begin with
/// `millstream.`, and expressions must compile; a definition that violates only these rules is rejected with 422.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Definition", deny_unknown_fields)]
#[schemars(extend("examples" = [{
    "name": "order",
    "initial": "received",
    "context": { "total": 0 },
    "states": {
        "received": {
            "on": {
                "pay": [
                    {
                        "if": "event.payload.amount >= context.total",
                        "to": "paid",
                        "set": { "paid": "event.payload.amount" },
                        "do": ["receipt"],
                    },
                    { "to": "underpaid" },
                ],
                "expire": { "to": "expired" },
            },
            "after": [{ "in": "30m", "send": "expire" }],
        },
        "underpaid": { "on": { "pay": { "to": "paid" } } },
        "paid": { "final": true },
        "expired": { "final": "failed" },
    },
    "actions": { "receipt": { "log": "paid ${context.paid}" } },
}]))]
pub struct DefinitionDocument {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", extend("enum" = [1]))]
    pub dialect: Option<i32>,
    #[schemars(with = "scalar::Name")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedMode")]
    pub mode: Option<DefinedMode>,
    #[schemars(with = "scalar::Name")]
    pub initial: String,
    /// The input of an execution is merged over it, shallowly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub context: Option<Map<String, Value>>,
    /// An execution that has not ended by then fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub timeout: Option<String>,
    #[schemars(extend(
        "minProperties" = 1,
        "maxProperties" = 1000,
        "propertyNames" = { "$ref": "#/components/schemas/Name" }
    ))]
    pub states: BTreeMap<String, DefinedState>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 1000,
        "propertyNames" = { "$ref": "#/components/schemas/Name" }
    ))]
    pub actions: BTreeMap<String, DefinedAction>,
    /// CEL over the context: the name by which signals find an execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub correlate: Option<String>,
}

/// A state: its transitions by event, its timers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedState {
    /// Transitions by the name of their event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = { "$ref": "#/components/schemas/Name" }))]
    pub on: BTreeMap<String, DefinedAlternatives>,
    /// Timers that run while an execution is in the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub after: Vec<DefinedTimer>,
    /// Events that are kept for a later state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<scalar::Name>", extend("uniqueItems" = true))]
    pub defer: Vec<String>,
    /// `true`: the execution is completed; `failed`: it has failed.
    #[serde(rename = "final", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value", extend("enum" = [true, false, "failed"]))]
    pub final_state: Option<Value>,
}

/// One alternative, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum DefinedAlternatives {
    One(DefinedAlternative),
    /// Tried in order.
    Several(#[schemars(length(min = 1))] Vec<DefinedAlternative>),
}

/// A transition, if its condition holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Alternative", deny_unknown_fields)]
pub struct DefinedAlternative {
    /// A CEL expression.
    #[serde(rename = "if", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value", extend("type" = ["string", "boolean"]))]
    pub condition: Option<Value>,
    /// The state to enter. Without it the execution stays where it is, and its timers continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Name")]
    pub to: Option<String>,
    /// Every string in it is a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub set: Option<Map<String, Value>>,
    /// The actions that it starts.
    #[serde(rename = "do", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<scalar::Name>", length(max = 64))]
    pub actions: Vec<String>,
}

/// A timer of a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedTimer {
    #[serde(rename = "in")]
    #[schemars(with = "scalar::Duration")]
    pub delay: String,
    /// The event that it sends.
    #[schemars(with = "scalar::Name")]
    pub send: String,
}

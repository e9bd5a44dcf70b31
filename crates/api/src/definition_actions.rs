//! The actions of a definition as they are written.
//!
//! An optional field is absent and not null. An action has the field of exactly one kind.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scalar;
use crate::words::api_words;

/// An action of one kind, with its retries and the events that report its outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["http"] },
    { "required": ["log"] },
    { "required": ["noop"] },
    { "required": ["call"] },
    { "required": ["task"] },
    { "required": ["device"] },
    { "required": ["task_for"] },
    { "required": ["emit"] },
    { "required": ["start"] },
    { "required": ["wait"] },
    { "required": ["webhook"] },
]))]
pub struct DefinedAction {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedHttp")]
    pub http: Option<DefinedHttp>,
    /// May hold ${CEL}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub log: Option<String>,
    /// Any value; every string in it is a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub noop: Option<Value>,
    /// A function of the workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Name")]
    pub call: Option<String>,
    /// The input of `call`: any value; every string in it is a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedTask")]
    pub task: Option<DefinedTask>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedDeviceRun")]
    pub device: Option<DefinedDeviceRun>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedTaskFor")]
    pub task_for: Option<DefinedTaskFor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedEmit")]
    pub emit: Option<DefinedEmit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedStart")]
    pub start: Option<DefinedStart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedWait")]
    pub wait: Option<DefinedWait>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedWebhook")]
    pub webhook: Option<DefinedWebhook>,
    /// Actions of the same transition that must succeed before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<scalar::Name>")]
    pub needs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedRetry")]
    pub retry: Option<DefinedRetry>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedTimeouts")]
    pub timeouts: Option<DefinedTimeouts>,
    /// The event after its success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Name")]
    pub on_success: Option<String>,
    /// The event after its permanent failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Name")]
    pub on_failure: Option<String>,
    /// The event after its permanent failure, once the completed actions of the transition are undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Name")]
    pub compensate: Option<String>,
    /// The action that undoes this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Name")]
    pub undo: Option<String>,
}

/// A request over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedHttp {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedHttpMethod")]
    pub method: Option<DefinedHttpMethod>,
    /// May hold ${CEL}.
    #[schemars(regex(pattern = r"^https?://"))]
    pub url: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, DefinedHeader>")]
    pub headers: BTreeMap<String, Value>,
    /// Every string in it is a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub body: Option<Value>,
    /// Which statuses succeed; 2xx when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<DefinedHttpStatus>,
    /// The part of the response that becomes the result; every string in it is a CEL expression over `response`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub result: Option<Value>,
    /// Bytes of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 16_777_216))]
    pub max_response: Option<u32>,
}

api_words! {
    /// The method of a request.
    DefinedHttpMethod {
        Get = "GET",
        Head = "HEAD",
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
        Delete = "DELETE",
    }
}

/// A header: a text that may hold ${CEL}, or a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum DefinedHeader {
    Text(String),
    Number(i64),
}

/// A status, or a class of statuses like `2xx`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum DefinedHttpStatus {
    Number(#[schemars(range(min = 100, max = 599))] u16),
    Text(#[schemars(regex(pattern = r"^([1-5]xx|[1-5][0-9][0-9])$"))] String),
}

/// A task for external workers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedTask {
    /// The type that workers lease.
    #[serde(rename = "type")]
    #[schemars(with = "scalar::Name")]
    pub kind: String,
    /// Labels that a worker must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<scalar::Name>", length(max = 16))]
    pub labels: Vec<String>,
    /// Any value; every string in it is a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub input: Option<Value>,
}

/// A run for devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedDeviceRun {
    #[schemars(with = "scalar::Name")]
    pub kind: String,
    /// Capabilities that a device must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<scalar::Name>", length(max = 100), extend("uniqueItems" = true))]
    pub requires: Vec<String>,
    /// Capabilities that a device should have: it is preferred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<scalar::Name>", length(max = 100), extend("uniqueItems" = true))]
    pub prefer: Vec<String>,
    /// Any value; every string in it is a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", extend("minimum" = -2_147_483_648_i64, "maximum" = 2_147_483_647, "default" = 0))]
    pub priority: Option<i32>,
    /// Whether it may preempt a device's work of lower priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool", extend("default" = false))]
    pub preempt: Option<bool>,
    /// Number of devices that work on it in parallel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 100), extend("default" = 1))]
    pub devices: Option<u32>,
    /// Whether the elected coordinator is asked first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool", extend("default" = false))]
    pub coordinator: Option<bool>,
    /// Percent; a device on battery with less charge is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u8", range(min = 0, max = 100))]
    pub min_battery: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedDeviceSettings")]
    pub settings: Option<DefinedDeviceSettings>,
}

/// Times of a run; the settings of its kind are the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedDeviceSettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub assignment_timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub claim_timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub heartbeat: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub heartbeat_timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 0, max = 10_000))]
    pub max_reassignments: Option<u32>,
}

/// An item of a queue, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedTaskFor {
    #[schemars(with = "scalar::Name")]
    pub queue: String,
    /// Any value, shown to people; every string in it is a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub payload: Option<Value>,
    /// Overrides the priority of the queue; higher comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = -1_000_000, max = 1_000_000))]
    pub priority: Option<i32>,
    /// Skills that people must have, in addition to those of the queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<scalar::Name>", length(max = 64), extend("uniqueItems" = true))]
    pub skills: Vec<String>,
    /// Overrides the value of the queue: number of different people who work on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 100))]
    pub overlap: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub due: Option<String>,
}

/// An event for another execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedEmit {
    /// May hold ${CEL}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub to: Option<String>,
    /// May hold ${CEL}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub correlation: Option<String>,
    #[schemars(with = "scalar::Name")]
    pub event: String,
    /// Any value; every string in it is a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub payload: Option<Value>,
}

/// A child execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedStart {
    #[schemars(with = "scalar::Name")]
    pub definition: String,
    /// Default: the latest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Version")]
    pub version: Option<i32>,
    /// May hold ${CEL}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub execution_id: Option<String>,
    /// Any value; every string in it is a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub input: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedParentClose")]
    pub parent_close: Option<DefinedParentClose>,
}

api_words! {
    /// What happens to a child when its parent ends first.
    DefinedParentClose {
        Cancel = "cancel",
        Abandon = "abandon",
    }
}

/// A pause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedWait {
    /// CEL that evaluates to a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub until: Option<String>,
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub for_time: Option<String>,
}

/// A signed request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedWebhook {
    /// May hold ${CEL}.
    #[schemars(regex(pattern = r"^https?://"))]
    pub url: String,
    /// May hold ${CEL}.
    #[serde(rename = "type")]
    pub kind: String,
    /// Any value; every string in it is a CEL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub data: Option<Value>,
    /// The secret that signs it.
    #[schemars(with = "scalar::Name")]
    pub secret: String,
}

/// Retries of an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedRetry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 1000))]
    pub attempts: Option<u32>,
    /// The longest wait before the second attempt; it doubles with each attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub backoff: Option<String>,
    /// No wait is longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub max: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefinedJitter")]
    pub jitter: Option<DefinedJitter>,
    /// Classes of errors that are not retried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<scalar::Name>")]
    pub except: Vec<String>,
}

api_words! {
    /// How much of a wait is random: all of it, its second half, or nothing.
    DefinedJitter {
        Full = "full",
        Half = "half",
        None = "none",
    }
}

/// Time limits of an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinedTimeouts {
    /// One attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub start_to_close: Option<String>,
    /// From ready to the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub schedule_to_start: Option<String>,
    /// From ready to the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub schedule_to_close: Option<String>,
    /// Between two heartbeats of one attempt; `call` and `task` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub heartbeat: Option<String>,
}

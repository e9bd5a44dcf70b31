//! The history of an execution: its transitions, read or followed, and its armed timers.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::executions::ExecutionStatus;
use crate::graph_words::NodeStatus;
use crate::scalar;
use crate::sse::SseData;

/// One transition of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Transition", deny_unknown_fields)]
pub struct ExecutionTransition<J = Value> {
    /// Its number, from 1 on.
    pub seq: i64,
    #[schemars(with = "scalar::EventId")]
    pub event_id: String,
    /// The name of its event; the first is `millstream.start`.
    #[schemars(with = "scalar::Name")]
    pub name: String,
    /// The payload of its event: any JSON, stored as sent.
    pub payload: J,
    /// Null for the first.
    #[schemars(with = "Option<scalar::Name>")]
    pub from_state: Option<String>,
    #[schemars(with = "scalar::Name")]
    pub to_state: String,
    /// The actions that it started.
    #[schemars(with = "Vec<scalar::Name>")]
    pub actions: Vec<String>,
    #[schemars(with = "scalar::Time")]
    pub at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<TransitionGraphChange>,
}

/// The changes of the transition to the graph. Only in transitions of graphs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GraphChange", deny_unknown_fields)]
pub struct TransitionGraphChange {
    /// Nodes with a new status or a new attempt, in the order of the change.
    pub nodes: Vec<TransitionNodeChange>,
    /// The revision of the shape afterwards, if edits or a fan-out changed it.
    pub revision: Option<u32>,
}

/// A new status or a new attempt of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeChange", deny_unknown_fields)]
pub struct TransitionNodeChange {
    #[schemars(with = "scalar::Name")]
    pub node: String,
    pub status: NodeStatus,
    pub attempt: u32,
    pub why: Option<String>,
}

/// The end of an execution, after its last transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TailEnd {
    pub status: ExecutionStatus,
    /// The number of its last transition.
    pub seq: i64,
}

/// One server-sent event, as its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[schemars(rename = "TailMessage", deny_unknown_fields)]
pub enum TailSseMessage {
    Transition {
        /// The seq of the transition.
        id: String,
        #[schemars(with = "SseData<ExecutionTransition>")]
        data: String,
    },
    End {
        #[schemars(with = "SseData<TailEnd>")]
        data: String,
    },
}

/// An armed timer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Timer {
    /// The transition that armed it.
    pub armed_seq: i64,
    /// Its position among the timers of that transition.
    pub ordinal: i32,
    /// The event that it sends.
    #[schemars(with = "scalar::Name")]
    pub send: String,
    #[schemars(with = "scalar::Time")]
    pub fire_at: Timestamp,
}

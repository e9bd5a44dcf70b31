//! A dispatch: the action that performs one attempt at one node.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::spec::NodeId;
use crate::id::Name;
use crate::time::Timestamp;

/// The input of the action. It is stored, and small: the request itself is rendered when it is performed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInput {
    pub node: NodeId,
    pub attempt: u32,
    pub work: Work,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<Name>,
    /// Of this attempt.
    pub timeout_ms: u64,
    /// A retry is not begun before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<String>,
}

/// Who performs a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// An executor, over gRPC.
    Execute,
    /// A graph of its own.
    Graph,
    /// An execution of a definition.
    Execution,
}

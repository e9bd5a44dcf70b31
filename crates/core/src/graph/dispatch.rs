//! A dispatch: the action that performs one attempt at one node.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limits::{DEFAULT_PARALLEL, DEFAULT_TIMEOUT};
use super::spec::{GraphOptions, NodeId, NodeRetry, NodeSpec};
use super::state::Graph;
use super::status::NodeStatus;
use crate::definition::{ActionKind, ActionSpec, FailureRule, Template, Timeouts};
use crate::duration;
use crate::id::Name;
use crate::retry::RetryPolicy;
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

impl NodeInput {
    /// An attempt at a node as the node and its graph want it.
    pub(super) fn of(
        graph: &Graph,
        id: &NodeId,
        spec: &NodeSpec,
        attempt: u32,
        again: Option<(Timestamp, Vec<String>)>,
    ) -> Self {
        let work = match (&spec.graph, &spec.execution) {
            (Some(_), _) => Work::Graph,
            (None, Some(_)) => Work::Execution,
            (None, None) => Work::Execute,
        };
        let (not_before, avoid) = match again {
            Some((not_before, avoid)) => (Some(not_before), avoid),
            None => (None, Vec::new()),
        };
        Self {
            node: id.clone(),
            attempt,
            work,
            role: spec.agent.role.clone(),
            labels: spec.agent.labels.clone(),
            timeout_ms: u64::try_from(graph.options.timeout_of(spec).as_millis()).unwrap_or(u64::MAX),
            not_before,
            avoid,
        }
    }
}

impl GraphOptions {
    /// How long one attempt at a node may take.
    pub fn timeout_of(&self, node: &NodeSpec) -> Duration {
        node.options.timeout.or(self.node.timeout).unwrap_or(DEFAULT_TIMEOUT)
    }

    /// How a node is tried again.
    pub fn retry_of(&self, node: &NodeSpec) -> NodeRetry {
        node.options.retry.as_ref().or(self.node.retry.as_ref()).cloned().unwrap_or_default()
    }

    /// How many nodes may run at once.
    pub fn parallel(&self) -> u32 {
        self.max_parallel.unwrap_or(DEFAULT_PARALLEL)
    }
}

impl NodeRetry {
    /// How long to wait after attempt number `attempt` ended so, or `None` when it was the last one.
    pub fn wait_after(&self, attempt: u32, status: NodeStatus) -> Option<Duration> {
        let doublings = attempt.saturating_sub(1).min(31);
        let wait = self.backoff.saturating_mul(1 << doublings).min(self.max);
        (attempt < self.attempts && self.on.contains(&status)).then_some(wait)
    }
}

/// How the action of a dispatch is tried: once, since another attempt is another action. Whatever it comes
/// to, the graph is told.
pub fn dispatch_spec(node: &NodeId) -> ActionSpec {
    ActionSpec {
        name: node.clone(),
        kind: ActionKind::Noop { value: Template::Null },
        needs: Vec::new(),
        retry: RetryPolicy { attempts: 1, ..RetryPolicy::default() },
        // The node's own timeout is in the input, and whoever performs it keeps it.
        timeouts: Timeouts::of_attempt(duration::MAX),
        on_success: Some(NodeId::node_outcome()),
        failure: FailureRule::Emit(NodeId::node_outcome()),
        undo: None,
        undoes: None,
    }
}

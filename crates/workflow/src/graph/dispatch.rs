//! A dispatch: the action that performs one attempt at one node.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_model::duration;
use millstream_model::id::Name;
use millstream_model::retry::RetryPolicy;
use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::limits::{DEFAULT_PARALLEL, DEFAULT_TIMEOUT};
use super::spec::{GraphOptions, NodeId, NodeRetry, NodeSpec};
use super::state::Graph;
use super::status::NodeStatus;
use crate::definition::{ActionPolicy, ActionTimeouts, FailureRule};

/// The stored input of the action. It is small: the request itself is rendered when the action runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInput {
    pub node: NodeId,
    pub attempt: u32,
    pub work: NodePerformer,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<Name>,
    /// Time limit of this attempt.
    pub timeout_ms: u64,
    /// Earliest start of a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<String>,
}

/// The performer of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodePerformer {
    /// An executor, over gRPC.
    Execute,
    /// A nested graph.
    Graph,
    /// An execution of a definition.
    Execution,
}

impl NodeInput {
    /// The input for an attempt, from the options of the node and its graph.
    pub(crate) fn of_attempt(
        graph: &Graph,
        id: &NodeId,
        spec: &NodeSpec,
        attempt: u32,
        again: Option<(Timestamp, Vec<String>)>,
    ) -> Self {
        let work = match (&spec.graph, &spec.execution) {
            (Some(_), _) => NodePerformer::Graph,
            (None, Some(_)) => NodePerformer::Execution,
            (None, None) => NodePerformer::Execute,
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
    /// Time limit of one attempt at a node.
    pub fn timeout_of(&self, node: &NodeSpec) -> Duration {
        node.options.timeout.or(self.node.timeout).unwrap_or(DEFAULT_TIMEOUT)
    }

    /// Retry policy of a node.
    pub fn retry_of(&self, node: &NodeSpec) -> NodeRetry {
        node.options.retry.as_ref().or(self.node.retry.as_ref()).cloned().unwrap_or_default()
    }

    /// Maximum number of nodes that run concurrently.
    pub fn max_parallel_nodes(&self) -> u32 {
        self.max_parallel.unwrap_or(DEFAULT_PARALLEL)
    }
}

impl NodeRetry {
    /// Backoff after attempt number `attempt` ended with this status, or `None` if it was the last one.
    pub fn backoff_after(&self, attempt: u32, status: NodeStatus) -> Option<Duration> {
        let doublings = attempt.saturating_sub(1).min(31);
        let wait = self.backoff.saturating_mul(1 << doublings).min(self.max);
        (attempt < self.attempts && self.on.contains(&status)).then_some(wait)
    }
}

/// The policy of a dispatch action: a single attempt, because another attempt at the node is another action.
/// Every outcome is reported to the graph as an event.
pub fn dispatch_policy() -> ActionPolicy {
    ActionPolicy {
        retry: RetryPolicy { attempts: 1, ..RetryPolicy::default() },
        // The performer enforces the node's own timeout, which is in the input.
        timeouts: ActionTimeouts::of_attempt(duration::MAX),
        on_success: Some(NodeId::node_outcome()),
        failure: FailureRule::Emit(NodeId::node_outcome()),
    }
}

//! Dispatching of ready nodes, within the parallelism limit.

use std::collections::BTreeSet;

use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::propagate::GraphPropagation;
use crate::graph::{Graph, Node, NodeChange, NodeId, NodeInput, NodeSpec, NodeStatus, why};
use crate::log::{ActionPlan, PlannedAction};
use crate::machine::ActionInput;

/// Maximum number of executors remembered as avoided by a node.
const MAX_AVOIDED: usize = 16;

/// The reason of a retry.
pub(super) struct NodeRetryCause<'a> {
    pub(super) status: NodeStatus,
    pub(super) error: &'a str,
    pub(super) executor: Option<&'a str>,
    pub(super) not_before: Timestamp,
    /// Maximum number of attempts.
    pub(super) attempts: u32,
}

impl GraphPropagation<'_> {
    /// Dispatches ready nodes in order of their ids, up to the parallelism limit.
    pub(super) fn dispatch_ready(&mut self, graph: &Graph) {
        let running = graph.tally.count_of(NodeStatus::Running);
        let busy = running.saturating_sub(graph.running_fan_outs).saturating_sub(self.freed);
        let room =
            usize::try_from(graph.options.max_parallel_nodes().saturating_sub(busy)).unwrap_or(usize::MAX);
        if room == 0 {
            return;
        }
        let held = graph.ready.iter().filter(|id| self.is_still_ready(id)).take(room);
        let next: BTreeSet<NodeId> = held.chain(self.ready.iter().take(room)).cloned().collect();
        for id in next.into_iter().take(room) {
            self.dispatch_node(graph, id);
        }
    }

    /// Dispatches a retry of a running node.
    pub(super) fn dispatch_retry(&mut self, graph: &Graph, node: &Node, again: &NodeRetryCause<'_>) {
        let mut avoid = node.avoid.clone();
        if let (NodeStatus::Crash | NodeStatus::InfraError, Some(executor)) = (again.status, again.executor)
            && !avoid.iter().any(|name| name == executor)
        {
            avoid.push(executor.to_owned());
            avoid.drain(..avoid.len().saturating_sub(MAX_AVOIDED));
        }
        let attempt = node.attempt + 1;
        let colon = if again.error.is_empty() { "" } else { ": " };
        let why =
            format!("attempt {attempt} of {} after {}{colon}{}", again.attempts, again.status, again.error);
        let id = &node.spec.id;
        let input =
            NodeInput::of_attempt(graph, id, &node.spec, attempt, Some((again.not_before, avoid.clone())));
        self.record(NodeChange {
            id: id.clone(),
            status: NodeStatus::Running,
            attempt,
            why: Some(why::shorten_text(&why)),
            kept: None,
            avoid,
        });
        self.plan_dispatch(input);
    }

    fn dispatch_node(&mut self, graph: &Graph, id: NodeId) {
        let of = match self.fresh.get(&id) {
            Some(fan_out) => graph.nodes.get(fan_out).map(|node| (&node.spec, Some(fan_out.clone()))),
            None => graph
                .nodes
                .get(&id)
                .map(|node| (&node.spec, node.of.as_ref().map(|(fan_out, _)| fan_out.clone()))),
        };
        let Some((spec, fan_out)) = of else { return };
        let why = match fan_out {
            Some(fan_out) => describe_item(&id, &fan_out),
            None => self.why_may_run(graph, spec),
        };
        let input = NodeInput::of_attempt(graph, &id, spec, 1, None);
        self.record(NodeChange {
            id,
            status: NodeStatus::Running,
            attempt: 1,
            why: Some(why),
            kept: None,
            avoid: Vec::new(),
        });
        self.plan_dispatch(input);
    }

    fn why_may_run(&self, graph: &Graph, spec: &NodeSpec) -> String {
        why::explain_run(&spec.parents, |parent| self.status_after(graph, parent))
    }

    fn plan_dispatch(&mut self, input: NodeInput) {
        self.actions.push(PlannedAction {
            name: input.node.clone(),
            ordinal: i32::try_from(self.actions.len()).unwrap_or(i32::MAX),
            needs: Vec::new(),
            plan: ActionPlan::Ready { input: RawJson::from_value(&ActionInput::Node(input)) },
        });
    }
}

fn describe_item(instance: &NodeId, fan_out: &NodeId) -> String {
    let index = instance.as_str().rsplit('.').next().unwrap_or_default();
    format!("item {index} of {fan_out}")
}

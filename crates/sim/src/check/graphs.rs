//! C10: a graph ends, no node begins before its parents have ended, and a passed node has passed once.

use std::collections::BTreeMap;

use millstream_model::status::ExecutionStatus;
use millstream_workflow::graph::NodeStatus;

use super::violation::{SimCheck, SimViolation};
use crate::history::{SimExecution, SimHistory};

pub(super) fn check_graphs(history: &SimHistory) -> Vec<SimViolation> {
    history.executions.iter().filter(|execution| !execution.nodes.is_empty()).flat_map(check_graph).collect()
}

fn check_graph(execution: &SimExecution) -> Vec<SimViolation> {
    let mut wrong = Vec::new();
    let mut accuse = |what: String| wrong.push(SimViolation::new(SimCheck::C10, &execution.id, what));
    if execution.status == ExecutionStatus::Active {
        accuse("everything is quiet, and it has not ended".to_owned());
    }
    // Outcomes of each node on the log, with their seqs.
    let mut outcomes: BTreeMap<&str, Vec<(i64, NodeStatus)>> = BTreeMap::new();
    for event in &execution.events {
        if let (Some((node, status)), Some(seq)) = (&event.outcome, event.seq) {
            outcomes.entry(node).or_default().push((seq, *status));
        }
    }
    // A fan-out has none of its own, but its instances have.
    let is_of = |node: &str, parent: &str| {
        node.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let ended_at = |parent: &str| {
        let found = outcomes.iter().filter(|(node, _)| is_of(node, parent));
        found.flat_map(|(_, outcomes)| outcomes.iter().map(|(seq, _)| *seq)).max()
    };
    for node in &execution.nodes {
        let is_open = matches!(node.status, NodeStatus::Pending | NodeStatus::Running);
        if is_open && execution.status != ExecutionStatus::Paused {
            accuse(format!("{} is {} for ever", node.id, node.status));
        }
        let passes = outcomes
            .get(node.id.as_str())
            .map_or(0, |found| found.iter().filter(|(_, status)| *status == NodeStatus::Pass).count());
        if passes > 1 {
            accuse(format!("{} passed {passes} times", node.id));
        }
        for begun in execution.actions.iter().filter(|action| action.node.as_ref() == Some(&node.id)) {
            for parent in &node.parents {
                if ended_at(parent).is_some_and(|ended| ended > begun.seq) {
                    accuse(format!("{} was begun at {} before {parent} had ended", node.id, begun.seq));
                }
            }
        }
    }
    wrong
}

//! One-line summaries of graphs.

use millstream_workflow::graph::NodeStatus;
use serde_json::Value;

use crate::output::plain_text;

/// `2 PASS, 1 SKIPPED`, in the order of a node's life; statuses unknown to this build come last.
pub(super) fn node_counts(nodes: &Value) -> String {
    let Some(counts) = nodes.as_object() else { return String::new() };
    let known = NodeStatus::ALL.iter().map(|status| status.as_str());
    let others = counts.keys().map(String::as_str).filter(|word| NodeStatus::parse(word).is_none());
    let counted =
        known.chain(others).filter_map(|word| counts.get(word).map(|count| format!("{count} {word}")));
    counted.collect::<Vec<_>>().join(", ")
}

/// Outcome of a graph.
pub(super) fn outcome_summary(graph: &Value) -> String {
    let mut text = format!("{} is {}", plain_text(&graph["graph_id"]), plain_text(&graph["status"]));
    if let Some(reason) = graph["reason"].as_str().filter(|reason| !reason.is_empty()) {
        text = format!("{text}: {reason}");
    }
    match node_counts(&graph["nodes"]).as_str() {
        "" => text,
        counts => format!("{text} ({counts})"),
    }
}

/// First line of a node's error, for lists.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn graph_outcome_has_reason_and_counts() {
        let passed = json!({ "graph_id": "g", "status": "PASSED", "nodes": { "PASS": 3, "FILTERED": 1 } });
        assert_eq!(outcome_summary(&passed), "g is PASSED (3 PASS, 1 FILTERED)");
        let failed = json!({ "graph_id": "g", "status": "FAILED", "reason": "node b failed", "nodes": {} });
        assert_eq!(outcome_summary(&failed), "g is FAILED: node b failed");
    }
}

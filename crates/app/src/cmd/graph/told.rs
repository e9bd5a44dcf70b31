//! One-line summaries of graphs.

use millstream_core::graph::NodeStatus;
use serde_json::Value;

use crate::output::plain;

/// `2 PASS, 1 SKIPPED`, in the order of a node's life; statuses unknown to this build come last.
pub(super) fn counts(nodes: &Value) -> String {
    let Some(counts) = nodes.as_object() else { return String::new() };
    let known = NodeStatus::ALL.iter().map(|status| status.as_str());
    let others = counts.keys().map(String::as_str).filter(|word| NodeStatus::parse(word).is_none());
    let counted =
        known.chain(others).filter_map(|word| counts.get(word).map(|count| format!("{count} {word}")));
    counted.collect::<Vec<_>>().join(", ")
}

/// Outcome of a graph.
pub(super) fn ended(graph: &Value) -> String {
    let mut text = format!("{} is {}", plain(&graph["graph_id"]), plain(&graph["status"]));
    if let Some(reason) = graph["reason"].as_str().filter(|reason| !reason.is_empty()) {
        text = format!("{text}: {reason}");
    }
    match counts(&graph["nodes"]).as_str() {
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
    fn an_end_says_why_and_how_many() {
        let passed = json!({ "graph_id": "g", "status": "PASSED", "nodes": { "PASS": 3, "FILTERED": 1 } });
        assert_eq!(ended(&passed), "g is PASSED (3 PASS, 1 FILTERED)");
        let failed = json!({ "graph_id": "g", "status": "FAILED", "reason": "node b failed", "nodes": {} });
        assert_eq!(ended(&failed), "g is FAILED: node b failed");
    }
}

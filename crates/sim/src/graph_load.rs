//! The graph of a run: its nodes, and the edits by its executors and clients.
//!
//! `plan` is performed and adds a node, `left` and `right` come after it, `each` is performed for every item of
//! a list, `kid` is an execution of a definition, and `join` comes after all of them, whatever became of them.

use serde_json::{Value, json};

/// The node whose answer brings an edit, and the node that it adds.
pub(crate) const PLANS: &str = "plan";
const ADDED: &str = "added";

/// Body of its creation, for a list of `items` items.
pub(crate) fn graph_body(id: &str, items: u64) -> Value {
    let items: Vec<u64> = (0..items).collect();
    json!({
        "graph_id": id, "name": "tree", "input": { "items": items },
        "options": { "node": {
            "timeout": "900ms",
            "retry": {
                "attempts": 6, "backoff": "50ms", "max": "400ms",
                "on": ["INFRA_ERROR", "TIMEOUT", "CRASH"],
            },
        } },
        "nodes": [
            { "id": PLANS, "agent": { "role": "planner" } },
            { "id": "left", "parents": [PLANS] },
            { "id": "right", "parents": [{ "node": PLANS, "if": "results.plan.token > 0" }] },
            { "id": "each", "parents": [PLANS], "fan_out": { "over": "input.items" } },
            { "id": "kid", "parents": ["left"], "options": { "timeout": "8s" },
              "execution": { "definition": "kid" } },
            { "id": "join", "parents": ["left", "right", "each", "kid"], "on_failure": "continue" },
        ],
    })
}

/// The edit that a client posts.
pub(crate) fn edit_body(expected_revision: u64, id: &str) -> Value {
    let node = json!({ "id": id, "parents": [PLANS] });
    json!({ "expected_revision": expected_revision, "edits": [{ "insert": node }] })
}

/// The edit in an executor's answer.
pub(crate) fn added_node() -> Value {
    json!([{ "insert": { "id": ADDED, "parents": [PLANS] } }])
}

/// The same for an answer over gRPC.
pub(crate) fn added_message() -> millstream_rpc::proto::NodeEdit {
    use millstream_rpc::proto::{Node, NodeEdit, Parent, node_edit};
    let parents = vec![Parent { node: PLANS.to_owned(), condition: None }];
    let node = Node { id: ADDED.to_owned(), parents, ..Node::default() };
    NodeEdit { kind: node_edit::Kind::Insert.into(), node: Some(node), ..NodeEdit::default() }
}

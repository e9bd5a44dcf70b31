//! `millstream graph get ID`: a graph, its nodes, or one node with what its executor wrote.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::{GraphNodeDetail, NodeLogEntry};
use serde::Serialize;
use serde_json::{Value, json};

use super::shown::read_shown_graph;
use super::summary;
use crate::cli::GraphGetArgs;
use crate::client::{first_items, page_size};
use crate::output::{CliOutput, format_fields, format_table, json_fields, plain_text};

const GRAPH: &[&str] = &[
    "graph_id",
    "name",
    "description",
    "creator",
    "status",
    "reason",
    "revision",
    "nodes",
    "input",
    "options",
    "created_at",
    "updated_at",
    "ended_at",
];
const NODE: &[&str] = &[
    "node",
    "status",
    "attempt",
    "why",
    "error",
    "goal",
    "parents",
    "children",
    "instance_of",
    "item",
    "progress",
    "result",
    "executor",
    "executor_reason",
    "started_at",
    "dispatched_at",
    "ended_at",
];
/// Enough to read on a terminal; programs page through the API.
const LOGS_LIMIT: usize = 1_000;

/// A node with its log, if that was asked for.
#[derive(Serialize)]
struct ShownNode {
    #[serde(flatten)]
    node: GraphNodeDetail,
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<Vec<NodeLogEntry>>,
}

pub(super) async fn run(args: &GraphGetArgs, client: &Client, output: CliOutput) -> Result<()> {
    if let Some(id) = &args.node {
        let mut shown = ShownNode { node: client.node(&args.graph, id).await?, logs: None };
        if args.logs {
            let logs = client.node_logs(&args.graph, id).page_size(page_size(LOGS_LIMIT)).stream();
            shown.logs = Some(first_items(logs, LOGS_LIMIT).await?);
        }
        return output.show(&shown, |shown| node_page(&json_fields(shown)));
    }
    let nodes = args.nodes.then(|| match &args.status {
        Some(status) => client.nodes(&args.graph).filter("status", status),
        None => client.nodes(&args.graph),
    });
    let shown = read_shown_graph(&args.graph, nodes, client).await?;
    output.show(&shown, |shown| graph_page(&json_fields(shown)))
}

fn graph_page(graph: &Value) -> String {
    let mut head = graph.clone();
    head["nodes"] = json!(summary::node_counts(&graph["nodes"]));
    let mut parts = vec![format_fields(&without_nothing(head), GRAPH)];
    match graph["node_list"].as_array().map(Vec::as_slice) {
        Some([]) => parts.push("no nodes".to_owned()),
        Some(nodes) => parts.push(format_table(
            &nodes.iter().map(node_row).collect::<Vec<_>>(),
            &[
                ("node", "node"),
                ("status", "status"),
                ("attempt", "attempt"),
                ("executor", "executor"),
                ("why", "why"),
            ],
        )),
        None => {}
    }
    parts.join("\n\n")
}

fn node_row(node: &Value) -> Value {
    let why = plain_text(if node["error"].is_null() { &node["why"] } else { &node["error"] });
    let mut row = node.clone();
    row["why"] = json!(summary::first_line(&why));
    row
}

fn node_page(node: &Value) -> String {
    let mut head = node.clone();
    let spec = &node["spec"];
    head["goal"] = json!(plain_text(&spec["task"]["goal"]).trim_end());
    let parents: Vec<&Value> = spec["parents"].as_array().into_iter().flatten().map(parent_id).collect();
    head["parents"] = json!(parents);
    let mut parts = vec![format_fields(&without_nothing(head), NODE)];
    match node["logs"].as_array().map(Vec::as_slice) {
        Some([]) => parts.push("no logs".to_owned()),
        Some(logs) => parts.push(logs.iter().map(log_line).collect::<Vec<_>>().join("\n")),
        None => {}
    }
    parts.join("\n\n")
}

/// A parent is an id, or an object with a condition.
fn parent_id(edge: &Value) -> &Value {
    edge.get("node").unwrap_or(edge)
}

fn log_line(entry: &Value) -> String {
    let more = if entry["truncated"] == json!(true) { "\n… the log is truncated here" } else { "" };
    let (at, attempt) = (plain_text(&entry["at"]), plain_text(&entry["attempt"]));
    format!("{at}  attempt {attempt}  {}{more}", plain_text(&entry["text"]).trim_end())
}

/// Drops fields with empty texts and lists.
fn without_nothing(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| *value != json!("") && *value != json!([]) && *value != json!({}));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_is_shown_with_counts_and_nodes() {
        let graph = json!({
            "graph_id": "g-1", "name": "diamond", "description": "", "creator": null, "status": "FAILED",
            "reason": "node left failed", "revision": 1, "nodes": { "FAIL": 1, "PASS": 1, "SKIPPED": 1 },
            "input": { "n": 1 }, "options": {}, "created_at": "2026-01-01T00:00:00.000Z",
            "updated_at": "2026-01-01T00:00:02.000Z", "ended_at": "2026-01-01T00:00:02.000Z",
            "node_list": [
                { "node": "join", "status": "SKIPPED", "attempt": 0, "why": "parent left is FAIL" },
                { "node": "left", "status": "FAIL", "attempt": 2, "executor": "e-1",
                  "why": "no", "error": "no way\nand more" },
            ]
        });
        insta::assert_snapshot!(graph_page(&graph), @r#"
        graph_id     g-1
        name         diamond
        status       FAILED
        reason       node left failed
        revision     1
        nodes        1 PASS, 1 FAIL, 1 SKIPPED
        input        {"n":1}
        created_at   2026-01-01T00:00:00.000Z
        updated_at   2026-01-01T00:00:02.000Z
        ended_at     2026-01-01T00:00:02.000Z

         NODE  STATUS   ATTEMPT  EXECUTOR  WHY
         join  SKIPPED  0                  parent left is FAIL
         left  FAIL     2        e-1       no way
        "#);
    }

    #[test]
    fn node_is_shown_with_task_and_log() {
        let node = json!({
            "node": "left", "status": "PASS", "attempt": 2, "why": null, "children": ["join"],
            "result": { "n": 2 }, "executor": "e-1", "executor_reason": "0 of 4 busy",
            "spec": { "id": "left", "parents": ["root", { "node": "other", "if": "input.n > 1" }],
                      "task": { "goal": "add one" } },
            "logs": [
                { "at": "2026-01-01T00:00:01.000Z", "attempt": 1, "text": "trying\n" },
                { "at": "2026-01-01T00:00:02.000Z", "attempt": 2, "text": "done", "truncated": true },
            ]
        });
        insta::assert_snapshot!(node_page(&node), @r#"
        node             left
        status           PASS
        attempt          2
        goal             add one
        parents          root, other
        children         join
        result           {"n":2}
        executor         e-1
        executor_reason  0 of 4 busy

        2026-01-01T00:00:01.000Z  attempt 1  trying
        2026-01-01T00:00:02.000Z  attempt 2  done
        … the log is truncated here
        "#);
    }
}

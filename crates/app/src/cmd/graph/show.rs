//! `millstream graph show ID`: draws the graph with the status of every node, as text or as a picture.

use std::path::Path;

use anyhow::{Context, Result};
use millstream_sdk::Client;
use millstream_workflow::graph::NodeStatus;
use millstream_workflow::graph::draw::{NodeSketch, draw_ascii, draw_svg};
use serde_json::{Value, json};

use super::shown::read_shown_graph;
use crate::cli::GraphShowArgs;
use crate::output::{CliOutput, json_fields, plain_text, print_line};

pub(super) async fn run(args: &GraphShowArgs, client: &Client, output: CliOutput) -> Result<()> {
    let shown = read_shown_graph(&args.graph, Some(client.nodes(&args.graph)), client).await?;
    let nodes = shown.node_list.as_deref().unwrap_or_default();
    let sketches: Vec<NodeSketch> = nodes.iter().map(|node| node_sketch(&json_fields(node))).collect();
    match &args.svg {
        Some(file) if file == Path::new("-") => print_line(draw_svg(&sketches).trim_end()),
        Some(file) => {
            std::fs::write(file, draw_svg(&sketches))
                .with_context(|| format!("cannot write {}", file.display()))?;
            let value = json!({ "graph_id": args.graph, "svg": file });
            output.show(&value, |_| format!("wrote {}", file.display()))
        }
        None => output.show(&shown, |shown| draw_text(&json_fields(&shown.graph), &sketches)),
    }
}

fn draw_text(graph: &Value, sketches: &[NodeSketch]) -> String {
    let get = |name: &str| plain_text(&graph[name]);
    let head =
        format!("{}  {}  {}  revision {}", get("graph_id"), get("name"), get("status"), get("revision"));
    format!("{head}\n{}", draw_ascii(sketches).trim_end())
}

/// The fields of a node that are drawn.
fn node_sketch(node: &Value) -> NodeSketch {
    let spec = &node["spec"];
    let parents = spec["parents"].as_array().into_iter().flatten();
    let parents = parents.map(|edge| plain_text(edge.get("node").unwrap_or(edge)));
    let fan_out = node["instance_of"].as_str().map(str::to_owned);
    let label = [&node["error"], &node["why"], &spec["task"]["goal"]];
    let label = label.into_iter().map(plain_text).find(|text| !text.is_empty()).unwrap_or_default();
    NodeSketch {
        id: plain_text(&node["node"]),
        parents: parents.chain(fan_out).collect(),
        // A newer server may send a status that is unknown here; it is drawn as not ended.
        status: node["status"].as_str().and_then(NodeStatus::parse).unwrap_or(NodeStatus::Running),
        label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_is_drawn_from_server_answer() {
        let graph = json!({ "graph_id": "g-1", "name": "fan", "status": "RUNNING", "revision": 2 });
        let nodes = [
            json!({ "node": "list", "status": "PASS", "spec": { "id": "list", "task": { "goal": "list them" } } }),
            json!({ "node": "each", "status": "RUNNING", "why": "2 items",
                    "spec": { "id": "each", "parents": [{ "node": "list", "if": "input.go" }] } }),
            json!({ "node": "each.0", "status": "PASS", "instance_of": "each", "spec": { "id": "each.0" } }),
            json!({ "node": "each.1", "status": "CRASH", "why": "x", "error": "connection reset",
                    "instance_of": "each", "spec": { "id": "each.1" } }),
            json!({ "node": "sum", "status": "PENDING", "spec": { "id": "sum", "parents": ["each"] } }),
        ];
        let sketches: Vec<NodeSketch> = nodes.iter().map(node_sketch).collect();
        insta::assert_snapshot!(draw_text(&graph, &sketches), @"
        g-1  fan  RUNNING  revision 2
        5 nodes: 1 PENDING, 1 RUNNING, 2 PASS, 1 CRASH
        layer 1
          + list  PASS           list them
        layer 2
          > each  RUNNING      <- list  2 items
        layer 3
          + each.0  PASS         <- each
          ! each.1  CRASH        <- each  connection reset
          . sum     PENDING      <- each
        ");
    }
}

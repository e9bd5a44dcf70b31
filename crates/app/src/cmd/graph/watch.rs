//! `millstream graph watch ID`: the events of a graph; reconnects at its last position.

use anyhow::{Context, Result};
use millstream_sdk::Client;
use millstream_sdk::client::GraphMessage;
use serde_json::{Value, json};

use super::summary;
use crate::output::{CliOutput, plain_text, print_line};

pub(super) async fn run(id: &str, after: Option<&str>, client: &Client, output: CliOutput) -> Result<()> {
    let mut events = match after {
        Some(position) => client.watch_graph_after(id, position),
        None => client.watch_graph(id),
    };
    while let Some(message) = events.next_message().await {
        let event = read_event(&message?)?;
        match output {
            CliOutput::Json => print_line(&event.to_string())?,
            CliOutput::Text => print_line(&event_line(&event))?,
        }
    }
    Ok(())
}

/// The event with its position. The text of the server also has the types of a newer server.
fn read_event(message: &GraphMessage) -> Result<Value> {
    let mut event: Value =
        serde_json::from_str(&message.data).with_context(|| format!("not an event: {}", message.data))?;
    let position = &message.event.position;
    if event.is_object() && !position.is_empty() {
        event["position"] = json!(position);
    }
    Ok(event)
}

/// One line: time, event, node, and reason.
fn event_line(event: &Value) -> String {
    let get = |name: &str| plain_text(&event[name]);
    let kind = get("type");
    let what = match kind.as_str() {
        "workflow.created" => format!("created     {} with {} nodes", get("name"), get("nodes")),
        "workflow.edited" => {
            format!("edited      {}, now at revision {}", edits_summary(event), get("revision"))
        }
        "node.expanded" => format!("expanded    {} into {} instances", get("node"), get("instances")),
        "node.scheduled" => format!("scheduled   {}{}", get("node"), reason_suffix(&get("why"))),
        "node.dispatched" => {
            format!("dispatched  {} to {}{}", get("node"), get("executor"), reason_suffix(&get("reason")))
        }
        "node.retried" => format!("retried     {}{}", get("node"), reason_suffix(&get("why"))),
        "node.completed" => format!("{:<10}  {}{}", get("status"), get("node"), reason_suffix(&get("why"))),
        "workflow.completed" => "PASSED".to_owned(),
        "workflow.failed" => format!("FAILED{}", reason_suffix(&get("reason"))),
        "workflow.cancelled" => format!("CANCELLED{}", reason_suffix(&get("reason"))),
        // An event type of a newer server.
        other => format!("{other}  {}", get("node")),
    };
    format!("{}  {}", get("at"), what.trim_end())
}

fn reason_suffix(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(": {}", summary::first_line(why)) }
}

/// `+review ~publish -spellcheck`.
fn edits_summary(event: &Value) -> String {
    let ids = |field: &str, sign: char, id: fn(&Value) -> &Value| {
        let edited = event[field].as_array().into_iter().flatten();
        edited.map(move |edit| format!("{sign}{}", plain_text(id(edit)))).collect::<Vec<_>>()
    };
    let inserted = ids("inserted", '+', |spec| &spec["id"]);
    let updated = ids("updated", '~', |both| &both["is"]["id"]);
    let deleted = ids("deleted", '-', |id| id);
    [inserted, updated, deleted].concat().join(" ")
}

#[cfg(test)]
mod tests {
    use millstream_sdk::client::GraphEvent;

    use super::*;

    #[test]
    fn every_event_is_a_line() {
        let events = [
            json!({ "type": "workflow.created", "name": "diamond", "nodes": 4 }),
            json!({ "type": "node.scheduled", "node": "root", "attempt": 1, "why": "has no parents" }),
            json!({ "type": "node.dispatched", "node": "root", "attempt": 1, "executor": "e-1",
                    "reason": "0 of 4 busy, least of 2 with room" }),
            json!({ "type": "node.completed", "node": "root", "status": "PASS", "attempt": 1 }),
            json!({ "type": "workflow.edited", "revision": 2, "inserted": [{ "id": "review" }],
                    "updated": [{ "was": { "id": "join" }, "is": { "id": "join" } }], "deleted": ["left"] }),
            json!({ "type": "node.expanded", "node": "each", "instances": 3, "revision": 3 }),
            json!({ "type": "node.retried", "node": "right", "attempt": 2,
                    "why": "attempt 2 of 3 after CRASH: connection reset\nmore" }),
            json!({ "type": "node.completed", "node": "right", "status": "TASK_ERROR", "attempt": 2, "why": "no" }),
            json!({ "type": "node.dreamt", "node": "right" }),
            json!({ "type": "workflow.failed", "reason": "node right failed" }),
            json!({ "type": "workflow.completed" }),
            json!({ "type": "workflow.cancelled", "reason": null }),
        ];
        let lines: Vec<String> = events
            .into_iter()
            .map(|mut event| {
                event["at"] = json!("2026-01-01T00:00:00.000Z");
                event_line(&event)
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        2026-01-01T00:00:00.000Z  created     diamond with 4 nodes
        2026-01-01T00:00:00.000Z  scheduled   root: has no parents
        2026-01-01T00:00:00.000Z  dispatched  root to e-1: 0 of 4 busy, least of 2 with room
        2026-01-01T00:00:00.000Z  PASS        root
        2026-01-01T00:00:00.000Z  edited      +review ~join -left, now at revision 2
        2026-01-01T00:00:00.000Z  expanded    each into 3 instances
        2026-01-01T00:00:00.000Z  retried     right: attempt 2 of 3 after CRASH: connection reset
        2026-01-01T00:00:00.000Z  TASK_ERROR  right: no
        2026-01-01T00:00:00.000Z  node.dreamt  right
        2026-01-01T00:00:00.000Z  FAILED: node right failed
        2026-01-01T00:00:00.000Z  PASSED
        2026-01-01T00:00:00.000Z  CANCELLED
        ");
    }

    #[test]
    fn json_graph_event_has_position() {
        let data = r#"{"at":"2026-01-01T00:00:00.000Z","graph_id":"g","seq":1,"type":"workflow.completed"}"#;
        let mut event: GraphEvent = serde_json::from_str(data).unwrap();
        event.position = "12.0".to_owned();
        assert_eq!(
            read_event(&GraphMessage { event, data: data.to_owned() }).unwrap().to_string(),
            r#"{"at":"2026-01-01T00:00:00.000Z","graph_id":"g","position":"12.0","seq":1,"type":"workflow.completed"}"#
        );
    }
}

//! `millstream get ID`: an execution (now or in the past) or an event.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::GetArgs;
use crate::client::{ApiClient, path_segment};
use crate::output::{CliOutput, format_fields, format_table};

const EXECUTION: &[&str] = &[
    "execution_id",
    "definition",
    "version",
    "state",
    "status",
    "reason",
    "seq",
    "correlation",
    "parent",
    "context",
    "created_at",
    "updated_at",
];
const EVENT: &[&str] = &[
    "event_id",
    "execution_id",
    "name",
    "payload",
    "status",
    "from_state",
    "to_state",
    "seq",
    "attempts",
    "error",
    "actor",
    "worker_id",
    "created_at",
    "started_at",
    "completed_at",
];
/// Enough to read on a terminal; programs page through the API.
const HISTORY_LIMIT: usize = 1000;
const WORK_LIMIT: usize = 1000;

pub(crate) async fn run(args: &GetArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    if let Some(event) = &args.event {
        let event = client.get(&format!("/v1/events/{}", path_segment(event))).await?;
        return output.show(&event, |event| format_fields(event, EVENT));
    }
    let path = format!("/v1/executions/{}", path_segment(args.execution.as_deref().unwrap_or_default()));
    let query = args.at_seq.map(|seq| format!("?at_seq={seq}")).unwrap_or_default();
    let mut execution = client.get(&format!("{path}{query}")).await?;
    if args.history {
        execution["history"] =
            client.list_pages(&format!("{path}/history"), &[], HISTORY_LIMIT).await?.into();
    }
    if args.work {
        execution["actions"] = client.list_pages(&format!("{path}/actions"), &[], WORK_LIMIT).await?.into();
        execution["timers"] = client.list_pages(&format!("{path}/timers"), &[], WORK_LIMIT).await?.into();
    }
    output.show(&execution, execution_page)
}

fn execution_page(execution: &Value) -> String {
    let mut parts = vec![format_fields(execution, EXECUTION)];
    let sections: [(&str, &[(&str, &str)]); 3] = [
        (
            "history",
            &[
                ("seq", "seq"),
                ("event", "name"),
                ("from", "from_state"),
                ("to", "to_state"),
                ("actions", "actions"),
                ("at", "at"),
            ],
        ),
        (
            "actions",
            &[
                ("seq", "seq"),
                ("action", "action"),
                ("status", "status"),
                ("attempts", "attempts"),
                ("progress", "progress"),
                ("error", "error"),
            ],
        ),
        ("timers", &[("sends", "send"), ("at", "fire_at")]),
    ];
    for (name, columns) in sections {
        match execution[name].as_array() {
            Some(rows) if rows.is_empty() => parts.push(format!("no {name}")),
            Some(rows) => {
                parts.push(format_table(&rows.iter().map(flatten_lists).collect::<Vec<_>>(), columns))
            }
            None => {}
        }
    }
    parts.join("\n\n")
}

/// Action lists may hold objects; a column shows their names.
fn flatten_lists(row: &Value) -> Value {
    let mut row = row.clone();
    if let Some(actions) = row["actions"].as_array() {
        let names: Vec<_> =
            actions.iter().map(|action| action.get("name").unwrap_or(action).clone()).collect();
        row["actions"] = json!(names);
    }
    if let Some(message) = row["error"]["message"].as_str() {
        row["error"] = json!(message);
    }
    row
}

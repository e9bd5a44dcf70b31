//! `millstream get ID`: an execution (now or in the past) or an event.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::{ActionView, Execution, ExecutionTransition, Timer};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::GetArgs;
use crate::client::{first_items, page_size};
use crate::output::{CliOutput, format_fields, format_table, json_fields};

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

/// An execution with the lists that were asked for.
#[derive(Serialize)]
struct ShownExecution {
    #[serde(flatten)]
    execution: Execution,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<ExecutionTransition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actions: Option<Vec<ActionView>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timers: Option<Vec<Timer>>,
}

pub(crate) async fn run(args: &GetArgs, client: &Client, output: CliOutput) -> Result<()> {
    if let Some(event) = &args.event {
        return output.show(&client.event(event).await?, |event| format_fields(event, EVENT));
    }
    let id = args.execution.as_deref().unwrap_or_default();
    let execution = match args.at_seq {
        Some(seq) => client.execution_at_seq(id, seq).await?,
        None => client.execution(id).await?,
    };
    let mut shown = ShownExecution { execution, history: None, actions: None, timers: None };
    if args.history {
        let history = client.history(id).page_size(page_size(HISTORY_LIMIT)).stream();
        shown.history = Some(first_items(history, HISTORY_LIMIT).await?);
    }
    if args.work {
        let actions = client.actions(id).page_size(page_size(WORK_LIMIT)).stream();
        shown.actions = Some(first_items(actions, WORK_LIMIT).await?);
        let timers = client.timers(id).page_size(page_size(WORK_LIMIT)).stream();
        shown.timers = Some(first_items(timers, WORK_LIMIT).await?);
    }
    output.show(&shown, |shown| execution_page(&json_fields(shown)))
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

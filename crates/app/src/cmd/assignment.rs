//! `millstream assignment`: assignments of items to people, and reassignment.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::{AssignmentArgs, AssignmentCommand, AssignmentListArgs};
use crate::client::{ApiClient, path_segment};
use crate::failure::hinted;
use crate::output::{CliOutput, format_table, plain_text};

const HINT: &str = "`millstream assignment list` shows which there are, and where they stand";

pub(crate) async fn run(args: &AssignmentArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    match &args.command {
        AssignmentCommand::List(args) => list_assignments(args, client, output).await,
        AssignmentCommand::Get { assignment } => {
            let found =
                client.get(&assignment_path(assignment, "")).await.map_err(|error| hinted(error, HINT))?;
            output.show(&found, pretty_json)
        }
        AssignmentCommand::Reassign { assignment, to } => {
            let body = to.as_ref().map_or_else(|| json!({}), |to| json!({ "to": to }));
            let answer = client.post(&assignment_path(assignment, "/reassign"), &body).await;
            let answer = answer.map_err(|error| hinted(error, HINT))?;
            output.show(&answer, |answer| {
                let to = to.as_ref().map_or("any person may have it".to_owned(), |to| format!("{to} has it"));
                format!("{assignment} is {}; {to}", plain_text(&answer["status"]))
            })
        }
    }
}

fn assignment_path(assignment: &str, rest: &str) -> String {
    format!("/v1/assignments/{}{rest}", path_segment(assignment))
}

fn pretty_json(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

async fn list_assignments(args: &AssignmentListArgs, client: &ApiClient, output: CliOutput) -> Result<()> {
    let query: Vec<(&str, String)> =
        [("status", &args.status), ("queue", &args.queue), ("person", &args.person), ("item", &args.item)]
            .into_iter()
            .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
            .collect();
    let items = client.list_pages("/v1/assignments", &query, args.limit).await?;
    output.show(&json!({ "items": items }), |_| match items.as_slice() {
        [] => "no assignments".to_owned(),
        rows => format_table(
            rows,
            &[
                ("id", "assignment_id"),
                ("queue", "queue"),
                ("item", "item_id"),
                ("person", "person"),
                ("status", "status"),
                ("attempt", "attempt"),
                ("deadline", "deadline"),
                ("created", "created_at"),
            ],
        ),
    })
}

//! `millstream assignment`: assignments of items to people, and reassignment.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::{AssignmentArgs, AssignmentCommand, AssignmentListArgs};
use crate::client::{Client, segment};
use crate::failure::hinted;
use crate::output::{Output, plain, table};

const HINT: &str = "`millstream assignment list` shows which there are, and where they stand";

pub(crate) async fn run(args: &AssignmentArgs, client: &Client, output: Output) -> Result<()> {
    match &args.command {
        AssignmentCommand::List(args) => list(args, client, output).await,
        AssignmentCommand::Get { assignment } => {
            let found = client.get(&path(assignment, "")).await.map_err(|error| hinted(error, HINT))?;
            output.show(&found, pretty)
        }
        AssignmentCommand::Reassign { assignment, to } => {
            let body = to.as_ref().map_or_else(|| json!({}), |to| json!({ "to": to }));
            let answer = client.post(&path(assignment, "/reassign"), &body).await;
            let answer = answer.map_err(|error| hinted(error, HINT))?;
            output.show(&answer, |answer| {
                let to = to.as_ref().map_or("any person may have it".to_owned(), |to| format!("{to} has it"));
                format!("{assignment} is {}; {to}", plain(&answer["status"]))
            })
        }
    }
}

fn path(assignment: &str, rest: &str) -> String {
    format!("/v1/assignments/{}{rest}", segment(assignment))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

async fn list(args: &AssignmentListArgs, client: &Client, output: Output) -> Result<()> {
    let query: Vec<(&str, String)> =
        [("status", &args.status), ("queue", &args.queue), ("person", &args.person), ("item", &args.item)]
            .into_iter()
            .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
            .collect();
    let items = client.list("/v1/assignments", &query, args.limit).await?;
    output.show(&json!({ "items": items }), |_| match items.as_slice() {
        [] => "no assignments".to_owned(),
        rows => table(
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

//! `millstream assignment`: assignments of items to people, and reassignment.

use anyhow::Result;
use millstream_sdk::Client;

use crate::cli::{AssignmentArgs, AssignmentCommand, AssignmentListArgs};
use crate::client::{first_items, hinted, page_size};
use crate::output::{CliOutput, format_table, pretty_fields};

const HINT: &str = "`millstream assignment list` shows which there are, and where they stand";

pub(crate) async fn run(args: &AssignmentArgs, client: &Client, output: CliOutput) -> Result<()> {
    match &args.command {
        AssignmentCommand::List(args) => list_assignments(args, client, output).await,
        AssignmentCommand::Get { assignment } => {
            let found = client.assignment(assignment).await.map_err(|error| hinted(error, HINT))?;
            output.show(&found, pretty_fields)
        }
        AssignmentCommand::Reassign { assignment, to } => {
            let answer = client.reassign_assignment(assignment, to.as_deref()).await;
            let answer = answer.map_err(|error| hinted(error, HINT))?;
            output.show(&answer, |answer| {
                let to = to.as_ref().map_or("any person may have it".to_owned(), |to| format!("{to} has it"));
                format!("{assignment} is {}; {to}", answer.assignment.status)
            })
        }
    }
}

async fn list_assignments(args: &AssignmentListArgs, client: &Client, output: CliOutput) -> Result<()> {
    let mut list = client.assignments().page_size(page_size(args.limit));
    for (name, value) in
        [("status", &args.status), ("queue", &args.queue), ("person", &args.person), ("item", &args.item)]
    {
        if let Some(value) = value {
            list = list.filter(name, value);
        }
    }
    let found = first_items(list.stream(), args.limit).await?;
    output.show_items(&found, |items| match items {
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

//! `millstream dead list|retry`: dead letters, the events that could not be decided.

use anyhow::{Result, bail};
use millstream_sdk::Client;
use millstream_sdk::client::EventStatus;

use crate::cli::DeadCommand;
use crate::client::{call_failure, first_items, page_size};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, format_table, print_line};

const LIMIT: usize = 1000;

pub(crate) async fn run(command: &DeadCommand, client: &Client, output: CliOutput) -> Result<()> {
    match command {
        DeadCommand::List { execution } => list_dead_events(execution.as_deref(), client, output).await,
        DeadCommand::Retry { events } => retry_dead_events(events, client, output).await,
    }
}

async fn list_dead_events(execution: Option<&str>, client: &Client, output: CliOutput) -> Result<()> {
    let mut list = client.events().status(EventStatus::Dead).page_size(page_size(LIMIT));
    if let Some(id) = execution {
        list = list.execution(id);
    }
    let found = first_items(list.stream(), LIMIT).await?;
    output.show_items(&found, |items| match items {
        [] => "no dead events".to_owned(),
        rows => format_table(
            rows,
            &[
                ("event", "event_id"),
                ("execution", "execution_id"),
                ("name", "name"),
                ("attempts", "attempts"),
                ("error", "error"),
                ("since", "completed_at"),
            ],
        ),
    })
}

/// Retries each event separately: one that cannot be retried does not stop the others.
async fn retry_dead_events(events: &[String], client: &Client, output: CliOutput) -> Result<()> {
    let mut failed = 0;
    for event in events {
        match client.retry_event(event, None).await {
            Ok(answer) => output.show(&answer, |answer| format!("{event} {}", answer.status))?,
            Err(error) => {
                failed += 1;
                print_line(&format!("{event}: {}", call_failure(&error)))?;
            }
        }
    }
    if failed > 0 {
        bail!(CommandFailure::new(
            ExitCode::Refused,
            format!("{failed} of {} could not be retried", events.len())
        ));
    }
    Ok(())
}

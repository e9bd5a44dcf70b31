//! `millstream dead list|retry`: dead letters, the events that could not be decided.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::cli::DeadCommand;
use crate::client::{ApiClient, path_segment};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CliOutput, format_table, plain_text, print_line};

const LIMIT: usize = 1000;

pub(crate) async fn run(command: &DeadCommand, client: &ApiClient, output: CliOutput) -> Result<()> {
    match command {
        DeadCommand::List { execution } => list_dead_events(execution.as_deref(), client, output).await,
        DeadCommand::Retry { events } => retry_dead_events(events, client, output).await,
    }
}

async fn list_dead_events(execution: Option<&str>, client: &ApiClient, output: CliOutput) -> Result<()> {
    let mut query = vec![("status", "dead".to_owned())];
    query.extend(execution.map(|id| ("execution_id", id.to_owned())));
    let items = client.list_pages("/v1/events", &query, LIMIT).await?;
    output.show(&json!({ "items": items }), |_| match items.as_slice() {
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
async fn retry_dead_events(events: &[String], client: &ApiClient, output: CliOutput) -> Result<()> {
    let mut failed = 0;
    for event in events {
        match client.post(&format!("/v1/events/{}/retry", path_segment(event)), &json!({})).await {
            Ok(answer) => {
                output.show(&answer, |answer: &Value| format!("{event} {}", plain_text(&answer["status"])))?
            }
            Err(error) => {
                failed += 1;
                print_line(&format!("{event}: {error}"))?;
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

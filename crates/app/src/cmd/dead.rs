//! `millstream dead list|retry`: dead letters, the events that could not be decided.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::cli::DeadCommand;
use crate::client::{Client, segment};
use crate::failure::{ExitCode, Failure};
use crate::output::{Output, line, plain, table};

const LIMIT: usize = 1000;

pub(crate) async fn run(command: &DeadCommand, client: &Client, output: Output) -> Result<()> {
    match command {
        DeadCommand::List { execution } => list(execution.as_deref(), client, output).await,
        DeadCommand::Retry { events } => retry(events, client, output).await,
    }
}

async fn list(execution: Option<&str>, client: &Client, output: Output) -> Result<()> {
    let mut query = vec![("status", "dead".to_owned())];
    query.extend(execution.map(|id| ("execution_id", id.to_owned())));
    let items = client.list("/v1/events", &query, LIMIT).await?;
    output.show(&json!({ "items": items }), |_| match items.as_slice() {
        [] => "no dead events".to_owned(),
        rows => table(
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
async fn retry(events: &[String], client: &Client, output: Output) -> Result<()> {
    let mut failed = 0;
    for event in events {
        match client.post(&format!("/v1/events/{}/retry", segment(event)), &json!({})).await {
            Ok(answer) => {
                output.show(&answer, |answer: &Value| format!("{event} {}", plain(&answer["status"])))?
            }
            Err(error) => {
                failed += 1;
                line(&format!("{event}: {error}"))?;
            }
        }
    }
    if failed > 0 {
        bail!(Failure::new(ExitCode::Refused, format!("{failed} of {} could not be retried", events.len())));
    }
    Ok(())
}

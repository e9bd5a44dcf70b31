//! `millstream start DEFINITION`: creates an execution, optionally with events in the same commit.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::NewExecution;

use crate::cli::StartArgs;
use crate::output::CliOutput;
use crate::user_input;

pub(crate) async fn run(args: &StartArgs, client: &Client, output: CliOutput) -> Result<()> {
    let mut new = NewExecution::of(&args.definition);
    if let Some(version) = args.version {
        new = new.version(version);
    }
    if let Some(id) = &args.id {
        new = new.id(id);
    }
    if let Some(input) = &args.input {
        new = new.input(user_input::parse_json_argument(input)?);
    }
    for event in &args.events {
        new = with_event(new, event)?;
    }
    let execution = client.start(new).await?;
    output.show(&execution, |execution| format!("{} is in state {}", execution.execution_id, execution.state))
}

/// Adds `NAME` or `NAME=JSON`.
fn with_event(new: NewExecution, event: &str) -> Result<NewExecution> {
    Ok(match event.split_once('=') {
        Some((name, payload)) => new.event_with(name, user_input::parse_json_argument(payload)?),
        None => new.event(event),
    })
}

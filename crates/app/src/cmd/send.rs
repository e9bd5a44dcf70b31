//! `millstream send EXECUTION EVENT`: posts an event and, with `--wait`, waits for its outcome.

use std::time::Duration;

use anyhow::{Result, bail};
use millstream_sdk::Client;
use millstream_sdk::client::{Event, EventStatus, SendOutcome};

use crate::cli::SendArgs;
use crate::failure::{CommandFailure, ExitCode};
use crate::output::CliOutput;
use crate::user_input;

pub(crate) async fn run(args: &SendArgs, client: &Client, output: CliOutput) -> Result<()> {
    let mut sending = client.send(&args.execution, &args.event);
    if let Some(payload) = &args.payload {
        sending = sending.payload(user_input::parse_json_argument(payload)?);
    }
    if let Some(key) = &args.key {
        sending = sending.key(key);
    }
    if let Some(seconds) = args.wait {
        sending = sending.wait(Duration::from_secs(seconds.into()));
    }
    let sent = sending.await?;
    show_sent_event(&sent, output)?;
    // The exit code of a script that waited tells the outcome.
    if args.wait.is_some()
        && matches!(sent.status, EventStatus::Rejected | EventStatus::Failed | EventStatus::Dead)
    {
        bail!(CommandFailure::new(ExitCode::Refused, format!("the event is {}", sent.status)));
    }
    Ok(())
}

fn show_sent_event(sent: &SendOutcome, output: CliOutput) -> Result<()> {
    match &sent.event {
        Some(event) => output.show(event, outcome_line),
        None => output.show(&sent.accepted(), |event| format!("{} {}", event.event_id, event.status)),
    }
}

fn outcome_line(event: &Event) -> String {
    let (id, status) = (&event.event_id, event.status);
    match (&event.to_state, &event.error) {
        (_, Some(error)) => format!("{id} {status}: {error}"),
        (Some(state), None) => format!("{id} {status}, now in state {state}"),
        (None, None) => format!("{id} {status}"),
    }
}

//! `millstream signal CORRELATION NAME`: an event for the execution that has the correlation.

use anyhow::{Context, Result};
use millstream_model::duration;
use millstream_sdk::Client;

use crate::cli::SignalArgs;
use crate::output::CliOutput;
use crate::user_input;

pub(crate) async fn run(args: &SignalArgs, client: &Client, output: CliOutput) -> Result<()> {
    let mut sending = client.signal(&args.correlation, &args.event);
    if let Some(payload) = &args.payload {
        sending = sending.payload(user_input::parse_json_argument(payload)?);
    }
    if let Some(definition) = &args.definition {
        sending = sending.definition(definition);
    }
    if let Some(wait_for) = &args.wait_for {
        sending = sending.wait_for(duration::parse(wait_for).context("--wait-for")?);
    }
    if let Some(key) = &args.key {
        sending = sending.key(key);
    }
    let signal = sending.await?;
    output.show(&signal, |signal| match &signal.execution_id {
        Some(execution) => format!("{} {} to {execution}", signal.signal_id, signal.status),
        None => format!("{} {}", signal.signal_id, signal.status),
    })
}

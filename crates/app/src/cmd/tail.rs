//! `millstream tail ID`: follows an execution; reconnects at its last position.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::{ExecutionTransition, TransitionMessage};

use crate::cli::TailArgs;
use crate::output::{CliOutput, print_line};

pub(crate) async fn run(args: &TailArgs, client: &Client, output: CliOutput) -> Result<()> {
    let mut transitions = client.tail_after(&args.execution, args.after.unwrap_or(0));
    while let Some(message) = transitions.next_message().await {
        let TransitionMessage { transition, data } = message?;
        match output {
            CliOutput::Json => print_line(&data)?,
            CliOutput::Text => print_line(&transition_line(&transition))?,
        }
    }
    Ok(())
}

fn transition_line(transition: &ExecutionTransition) -> String {
    let ExecutionTransition { seq, at, name, to_state, .. } = transition;
    let from = transition.from_state.as_deref().unwrap_or("·");
    format!("{seq:>4}  {at}  {name}  {from} → {to_state}")
}

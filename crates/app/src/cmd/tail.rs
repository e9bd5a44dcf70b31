//! `millstream tail ID`: follows an execution; reconnects at its last position.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::ExecutionTransition;

use crate::cli::TailArgs;
use crate::output::{CliOutput, print_line};

pub(crate) async fn run(args: &TailArgs, client: &Client, output: CliOutput) -> Result<()> {
    let mut transitions = client.tail_after(&args.execution, args.after.unwrap_or(0));
    while let Some(transition) = transitions.next().await {
        show_transition(&transition?, output)?;
    }
    Ok(())
}

fn show_transition(transition: &ExecutionTransition, output: CliOutput) -> Result<()> {
    match output {
        CliOutput::Json => print_line(&serde_json::to_string(transition)?),
        CliOutput::Text => {
            let ExecutionTransition { seq, at, name, to_state, .. } = transition;
            let from = transition.from_state.as_deref().unwrap_or("·");
            print_line(&format!("{seq:>4}  {at}  {name}  {from} → {to_state}"))
        }
    }
}

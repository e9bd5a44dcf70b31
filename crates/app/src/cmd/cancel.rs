//! `millstream cancel ID`: end an execution, with the reason kept in its history.

use anyhow::Result;
use millstream_sdk::Client;

use crate::cli::CancelArgs;
use crate::output::CliOutput;

pub(crate) async fn run(args: &CancelArgs, client: &Client, output: CliOutput) -> Result<()> {
    let mut cancelling = client.cancel(&args.execution);
    if let Some(reason) = &args.reason {
        cancelling = cancelling.reason(reason);
    }
    let sent = cancelling.await?;
    let text = format!("{} is being cancelled", args.execution);
    match &sent.event {
        Some(event) => output.show(event, |_| text),
        None => output.show(&sent.accepted(), |_| text),
    }
}

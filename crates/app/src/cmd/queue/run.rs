//! Dispatches the subcommands of `millstream queue`.

use anyhow::Result;

use super::{import, manage, stats};
use crate::cli::{QueueArgs, QueueCommand};
use crate::client::Client;
use crate::output::Output;

pub(crate) async fn run(args: &QueueArgs, client: &Client, output: Output) -> Result<()> {
    match &args.command {
        QueueCommand::List { limit } => manage::list(*limit, client, output).await,
        QueueCommand::Get { queue } => manage::get(queue, client, output).await,
        QueueCommand::Put { file, name } => manage::put(file, name.as_deref(), client, output).await,
        QueueCommand::Pause { queue } => manage::set(queue, "pause", client, output).await,
        QueueCommand::Resume { queue } => manage::set(queue, "resume", client, output).await,
        QueueCommand::Import { queue, file } => import::run(queue, file, client, output).await,
        QueueCommand::Stats(args) => stats::run(args, client, output).await,
    }
}

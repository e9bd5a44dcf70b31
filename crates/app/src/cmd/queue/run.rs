//! Dispatches the subcommands of `millstream queue`.

use anyhow::Result;
use millstream_sdk::Client;

use super::{import, manage, stats};
use crate::cli::{QueueArgs, QueueCommand};
use crate::output::CliOutput;

pub(crate) async fn run(args: &QueueArgs, client: &Client, output: CliOutput) -> Result<()> {
    match &args.command {
        QueueCommand::List { limit } => manage::list_queues(*limit, client, output).await,
        QueueCommand::Get { queue } => manage::show_queue(queue, client, output).await,
        QueueCommand::Put { file, name } => manage::put_queue(file, name.as_deref(), client, output).await,
        QueueCommand::Pause { queue } => manage::pause_queue(queue, client, output).await,
        QueueCommand::Resume { queue } => manage::resume_queue(queue, client, output).await,
        QueueCommand::Import { queue, file } => import::run(queue, file, client, output).await,
        QueueCommand::Stats(args) => stats::run(args, client, output).await,
    }
}

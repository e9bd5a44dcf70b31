//! Dispatches the subcommands of `millstream graph`.

use anyhow::Result;
use millstream_runtime::config::Config;

use super::{cancel, check, create, edit, executors, get, list, show, watch};
use crate::cli::{GraphArgs, GraphCommand};
use crate::client;
use crate::output::CliOutput;

pub(crate) async fn run(args: &GraphArgs, config: &Config, output: CliOutput) -> Result<()> {
    // `check` works without a server, and so without settings that name one.
    let client = || client::connect(config);
    match &args.command {
        GraphCommand::Check { file } => check::run(file, output),
        GraphCommand::Create(args) => create::run(args, &client()?, output).await,
        GraphCommand::Get(args) => get::run(args, &client()?, output).await,
        GraphCommand::List { status, limit } => {
            list::run(status.as_deref(), *limit, &client()?, output).await
        }
        GraphCommand::Watch { graph, after } => watch::run(graph, after.as_deref(), &client()?, output).await,
        GraphCommand::Edit(args) => edit::run(args, &client()?, output).await,
        GraphCommand::Cancel { graph, reason } => {
            cancel::run(graph, reason.as_deref(), &client()?, output).await
        }
        GraphCommand::Show(args) => show::run(args, &client()?, output).await,
        GraphCommand::Executors => executors::run(&client()?, output).await,
    }
}

//! The `millstream` binary: one file per subcommand, configuration, wiring. The only crate that
//! names backends and reads the environment.

mod backend;
mod cli;
mod client;
mod cmd;
mod config;
mod directory;
mod engine;
mod entropy;
mod failure;
mod output;
mod probe;
mod roles;
mod signals;
mod telemetry;
mod written;

use anyhow::Result;
use clap::Parser;
use millstream_core::time::Timestamp;
use millstream_store::Stores;

use crate::backend::Database;
use crate::cli::{Cli, Command};
use crate::client::Client;
use crate::config::Config;
use crate::output::Output;

fn main() {
    // The one TLS provider of the process; a second call (it cannot happen) would keep the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| {
            let outcome = runtime.block_on(run(&cli));
            // A name that is being looked up, say, must not hold up the exit.
            runtime.shutdown_background();
            outcome
        });
    if let Err(error) = outcome {
        eprintln!("error: {error:#}");
        std::process::exit(failure::exit_code(&error));
    }
}

async fn run(cli: &Cli) -> Result<()> {
    let output = if cli.global.json { Output::Json } else { Output::Text };
    let environment = std::env::vars().filter(|(name, _)| name.starts_with("MILLSTREAM_"));
    let config =
        config::load(cli.global.config.as_deref(), environment, &cli.global.flags(cli.command.listen()))?;
    match &cli.command {
        Command::Dev(args) => cmd::dev::run(args, &config).await,
        Command::Ingress(args) => cmd::ingress::run(args, &config).await,
        Command::Worker => cmd::worker::run(&config).await,
        Command::Migrate(args) => cmd::migrate::run(args, &config, output).await,
        Command::Check(args) => cmd::check::run(args, output),
        Command::Apply(args) => cmd::apply::run(args, &Client::new(&config)?, output).await,
        Command::Start(args) => cmd::start::run(args, &Client::new(&config)?, output).await,
        Command::Send(args) => cmd::send::run(args, &Client::new(&config)?, output).await,
        Command::Get(args) => cmd::get::run(args, &Client::new(&config)?, output).await,
        Command::List(args) => cmd::list::run(args, &Client::new(&config)?, output).await,
        Command::Tail(args) => cmd::tail::run(args, &Client::new(&config)?, output).await,
        Command::Replay(args) => cmd::replay::run(args, &open(&config).await?.0, output).await,
        Command::Dead(command) => cmd::dead::run(command, &Client::new(&config)?, output).await,
        Command::Cancel(args) => cmd::cancel::run(args, &Client::new(&config)?, output).await,
        Command::Workers => cmd::workers::run(&Client::new(&config)?, output).await,
        Command::Keys(command) => {
            let (stores, now) = open(&config).await?;
            cmd::keys::run(command, &stores, now, output).await
        }
        Command::Config(args) => cmd::config::run(args, &config, output),
        Command::Completions(args) => cmd::completions::run(args),
        Command::Demo(args) => cmd::demo::run(args, &config, output).await,
        Command::Bench(args) => cmd::bench::run(args, &cli.global, &config, output).await,
    }
}

/// The store behind the commands that work on it directly, and its time.
async fn open(config: &Config) -> Result<(Stores, Timestamp)> {
    let stores = Database::open(config).await?.stores();
    let now = stores.housekeeping.ping().await?;
    Ok((stores, now))
}

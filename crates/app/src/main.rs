//! The `millstream` binary: the command line, one file per subcommand, output. Settings and wiring are in
//! `millstream-runtime`.

mod cli;
mod client;
mod cmd;
mod failure;
mod output;
mod user_input;

use anyhow::Result;
use clap::Parser;
use millstream_model::time::Timestamp;
use millstream_runtime::backend::Database;
use millstream_runtime::config::{self, Config};
use millstream_runtime::{fault_injection, threads};
use millstream_store::Stores;

use crate::cli::{Cli, CliCommand};
use crate::output::CliOutput;

/// A worker spends half of its time between two round trips on small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // The one TLS provider of the process; a second call, which cannot happen, would keep the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let outcome = if let CliCommand::Bench(args) = &cli.command {
        // The program that takes over reads the settings itself, and needs none for its help.
        cmd::bench::start(args, &cli.global)
    } else {
        run_with_settings(&cli)
    };
    if let Err(error) = outcome.map_err(client::explain_call) {
        eprintln!("error: {error:#}");
        std::process::exit(failure::exit_code(&error));
    }
}

fn run_with_settings(cli: &Cli) -> Result<()> {
    let config = load_settings(cli)?;
    let runtime = threads::build_runtime(&config)?;
    let outcome = runtime.block_on(run(cli, config));
    // A pending name lookup, for example, must not delay the exit.
    runtime.shutdown_background();
    outcome
}

fn load_settings(cli: &Cli) -> Result<Config> {
    config::load_for_process(
        cli.global.config.as_deref(),
        &cli.global.config_flags(cli.command.listen_address()),
    )
}

async fn run(cli: &Cli, config: Config) -> Result<()> {
    fault_injection::plant_bug()?;
    fault_injection::expect_clock_signals()?;
    let output = if cli.global.json { CliOutput::Json } else { CliOutput::Text };
    match &cli.command {
        CliCommand::Dev(args) => cmd::dev::run(args, &config, None).await,
        CliCommand::Ingress(args) => cmd::ingress::run(args, &config).await,
        CliCommand::Worker => cmd::worker::run(&config, None).await,
        CliCommand::Migrate(args) => cmd::migrate::run(args, &config, output).await,
        CliCommand::Check(args) => cmd::check::run(args, output),
        CliCommand::Apply(args) => cmd::apply::run(args, &client::connect(&config)?, output).await,
        CliCommand::Start(args) => cmd::start::run(args, &client::connect(&config)?, output).await,
        CliCommand::Send(args) => cmd::send::run(args, &client::connect(&config)?, output).await,
        CliCommand::Signal(args) => cmd::signal::run(args, &client::connect(&config)?, output).await,
        CliCommand::Get(args) => cmd::get::run(args, &client::connect(&config)?, output).await,
        CliCommand::List(args) => cmd::list::run(args, &client::connect(&config)?, output).await,
        CliCommand::Tail(args) => cmd::tail::run(args, &client::connect(&config)?, output).await,
        CliCommand::Graph(args) => cmd::graph::run(args, &config, output).await,
        CliCommand::Device(args) => cmd::device::run(args, &client::connect(&config)?, output).await,
        CliCommand::Run(args) => cmd::run::run(args, &client::connect(&config)?, output).await,
        CliCommand::Queue(args) => cmd::queue::run(args, &client::connect(&config)?, output).await,
        CliCommand::Assignment(args) => cmd::assignment::run(args, &client::connect(&config)?, output).await,
        CliCommand::Person(args) => cmd::person::run(args, &client::connect(&config)?, output).await,
        CliCommand::Replay(args) => cmd::replay::run(args, &open_stores(&config).await?.0, output).await,
        CliCommand::Incidents(args) => cmd::incidents::run(args, &client::connect(&config)?, output).await,
        CliCommand::Dead(command) => cmd::dead::run(command, &client::connect(&config)?, output).await,
        CliCommand::Cancel(args) => cmd::cancel::run(args, &client::connect(&config)?, output).await,
        CliCommand::Why(args) => cmd::why::run(args, &client::connect(&config)?, output).await,
        CliCommand::Workers => cmd::workers::run(&client::connect(&config)?, output).await,
        CliCommand::Quota(args) => cmd::quota::run(args, &client::connect(&config)?, output).await,
        CliCommand::Keys(command) => {
            let (stores, now) = open_stores(&config).await?;
            cmd::keys::run(command, &stores, now, output).await
        }
        CliCommand::Config(args) => cmd::config::run(args, &config, output),
        CliCommand::Completions(args) => cmd::completions::run(args),
        CliCommand::Demo(args) => cmd::demo::run(args, &config, output).await,
        CliCommand::New(args) => cmd::new::run(args, output),
        CliCommand::Bench(args) => cmd::bench::start(args, &cli.global),
        CliCommand::BenchWorker => cmd::bench_engine::run_bench_worker(&config).await,
        CliCommand::BenchDev(args) => cmd::bench_engine::run_bench_dev(args, &config).await,
    }
}

/// The store and its time, for commands that use it directly.
async fn open_stores(config: &Config) -> Result<(Stores, Timestamp)> {
    let stores = Database::open(config).await?.stores();
    let now = stores.housekeeping.ping().await?;
    Ok((stores, now))
}

//! The `millstream` binary: the command line, one file per subcommand, output. Settings and wiring are in
//! `millstream-runtime`.

mod cli;
mod client;
mod cmd;
mod failure;
mod output;
mod written;

use anyhow::Result;
use clap::Parser;
use millstream_core::time::Timestamp;
use millstream_runtime::backend::Database;
use millstream_runtime::config::{self, Config};
use millstream_runtime::drills;
use millstream_store::Stores;
use tokio::runtime::{Builder, Runtime};

use crate::cli::{Cli, Command};
use crate::client::Client;
use crate::output::Output;

/// A worker spends half of its time between two round trips on small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // The one TLS provider of the process; a second call, which cannot happen, would keep the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let outcome = settings(&cli).and_then(|config| {
        let runtime = runtime(threads(&config))?;
        let outcome = runtime.block_on(run(&cli, config));
        // A pending name lookup, for example, must not delay the exit.
        runtime.shutdown_background();
        outcome
    });
    if let Err(error) = outcome {
        eprintln!("error: {error:#}");
        std::process::exit(failure::exit_code(&error));
    }
}

fn settings(cli: &Cli) -> Result<Config> {
    config::of_process(cli.global.config.as_deref(), &cli.global.flags(cli.command.listen()))
}

fn threads(config: &Config) -> usize {
    match config.threads {
        0 => std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
        threads => threads,
    }
}

/// With one thread, that thread does all the work. A second thread would only wait for the main future, and
/// every arriving event would cross between the two.
fn runtime(threads: usize) -> std::io::Result<Runtime> {
    match threads {
        1 => Builder::new_current_thread().enable_all().build(),
        threads => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
}

async fn run(cli: &Cli, config: Config) -> Result<()> {
    drills::plant_bug()?;
    drills::expect_clock_signals()?;
    let output = if cli.global.json { Output::Json } else { Output::Text };
    match &cli.command {
        Command::Dev(args) => cmd::dev::run(args, &config, None).await,
        Command::Ingress(args) => cmd::ingress::run(args, &config).await,
        Command::Worker => cmd::worker::run(&config, None).await,
        Command::Migrate(args) => cmd::migrate::run(args, &config, output).await,
        Command::Check(args) => cmd::check::run(args, output),
        Command::Apply(args) => cmd::apply::run(args, &Client::new(&config)?, output).await,
        Command::Start(args) => cmd::start::run(args, &Client::new(&config)?, output).await,
        Command::Send(args) => cmd::send::run(args, &Client::new(&config)?, output).await,
        Command::Signal(args) => cmd::signal::run(args, &Client::new(&config)?, output).await,
        Command::Get(args) => cmd::get::run(args, &Client::new(&config)?, output).await,
        Command::List(args) => cmd::list::run(args, &Client::new(&config)?, output).await,
        Command::Tail(args) => cmd::tail::run(args, &Client::new(&config)?, output).await,
        Command::Graph(args) => cmd::graph::run(args, &config, output).await,
        Command::Device(args) => cmd::device::run(args, &Client::new(&config)?, output).await,
        Command::Run(args) => cmd::run::run(args, &Client::new(&config)?, output).await,
        Command::Queue(args) => cmd::queue::run(args, &Client::new(&config)?, output).await,
        Command::Assignment(args) => cmd::assignment::run(args, &Client::new(&config)?, output).await,
        Command::Person(args) => cmd::person::run(args, &Client::new(&config)?, output).await,
        Command::Replay(args) => cmd::replay::run(args, &open(&config).await?.0, output).await,
        Command::Incidents(args) => cmd::incidents::run(args, &Client::new(&config)?, output).await,
        Command::Dead(command) => cmd::dead::run(command, &Client::new(&config)?, output).await,
        Command::Cancel(args) => cmd::cancel::run(args, &Client::new(&config)?, output).await,
        Command::Why(args) => cmd::why::run(args, &Client::new(&config)?, output).await,
        Command::Workers => cmd::workers::run(&Client::new(&config)?, output).await,
        Command::Quota(args) => cmd::quota::run(args, &Client::new(&config)?, output).await,
        Command::Keys(command) => {
            let (stores, now) = open(&config).await?;
            cmd::keys::run(command, &stores, now, output).await
        }
        Command::Config(args) => cmd::config::run(args, &config, output),
        Command::Completions(args) => cmd::completions::run(args),
        Command::Demo(args) => cmd::demo::run(args, &config, output).await,
        Command::New(args) => cmd::new::run(args, output),
        Command::Bench(args) => cmd::bench::run(args, &cli.global, &config, output).await,
        Command::BenchWorker => cmd::bench_engine::worker(&config).await,
        Command::BenchDev(args) => cmd::bench_engine::dev(args, &config).await,
    }
}

/// The store and its time, for commands that use it directly.
async fn open(config: &Config) -> Result<(Stores, Timestamp)> {
    let stores = Database::open(config).await?.stores();
    let now = stores.housekeeping.ping().await?;
    Ok((stores, now))
}

//! The steps of the demo, from an empty directory to the report.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use millstream_runtime::config::{Config, DurationSetting};
use millstream_runtime::engine::EmbeddedEngine;
use millstream_runtime::telemetry;
use millstream_sdk::Client;

use super::{orders, report, till};
use crate::cli::DemoArgs;
use crate::client;
use crate::output::CliOutput;

/// The first example of the documentation.
const ORDER: &str = include_str!("../../../embedded/examples/order.yaml");
/// Address of the till in the example; the demo starts its own.
const EXAMPLE_TILL: &str = "127.0.0.1:9000";
const WORKERS: usize = 2;
/// Long enough for a slow machine; a healthy one needs seconds.
const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) async fn run(args: &DemoArgs, config: &Config, output: CliOutput) -> Result<()> {
    let mut config = config.clone();
    // The demo prints a progress bar; the engine's default log would break it.
    if config.log == "info" {
        config.log = "error".to_owned();
    }
    telemetry::start_logging(&config)?;
    let metrics = telemetry::start_metrics()?;
    let dir = std::env::temp_dir().join(format!("millstream-demo-{}", std::process::id()));
    let started = Instant::now();

    let till = till::DemoTill::open().await?;
    config.dev.dir.clone_from(&dir);
    config.dev.workers = WORKERS;
    let mut engine = EmbeddedEngine::start(with_short_leases(config)?, None, metrics).await?;
    let client = client::connect_without_key(&engine.url)?;
    apply_definition(&client, till.address()).await?;

    print_text(
        output,
        &format!("The engine runs in this process on {}, {WORKERS} worker loops.", engine.url),
    );
    print_text(
        output,
        &format!("{} orders are placed; the till fails one charge in ten at first.\n", args.orders),
    );
    let bar = progress_bar(args.orders, output);
    orders::place_orders(&client, args.orders).await?;
    let halfway = orders::wait_until(&client, args.orders / 2, &bar, DEADLINE).await?;
    let killed = engine.kill_loop().context("there is a worker loop to kill")?;
    bar.println(format!("  killed worker loop {killed} with {halfway} of {} orders shipped", args.orders));
    engine.start_loop()?;
    orders::wait_until(&client, args.orders, &bar, DEADLINE).await?;
    orders::wait_for_quiet(&client, DEADLINE).await?;
    bar.finish_and_clear();

    let facts = report::collect_facts(&engine.shared.stores, &till, args.orders, started.elapsed()).await?;
    engine.stop().await?;
    let _ = std::fs::remove_dir_all(&dir);
    report::show_facts(&facts, output)
}

/// Short leases: the work of a killed loop moves on within seconds instead of half a minute.
fn with_short_leases(mut config: Config) -> Result<Config> {
    config.listen = "127.0.0.1:0".parse()?;
    config.listen_tls = "".parse()?;
    config.worker.lease = DurationSetting(Duration::from_secs(2));
    config.worker.lock_ttl = DurationSetting(Duration::from_secs(1));
    config.worker.reclaim_idle = DurationSetting(Duration::from_millis(1500));
    config.worker.overdue = DurationSetting(Duration::from_secs(3));
    config.worker.drain = DurationSetting(Duration::from_secs(5));
    Ok(config)
}

async fn apply_definition(client: &Client, till: std::net::SocketAddr) -> Result<()> {
    client.apply_yaml(ORDER.replace(EXAMPLE_TILL, &till.to_string())).await?;
    Ok(())
}

fn progress_bar(orders: usize, output: CliOutput) -> ProgressBar {
    if output == CliOutput::Json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("  {bar:40.green} {pos}/{len} orders shipped  {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(orders as u64).with_style(style)
}

fn print_text(output: CliOutput, text: &str) {
    if output == CliOutput::Text {
        eprintln!("{text}");
    }
}

//! Measures as the arguments say, and prints the report.

use std::io::Write;

use anyhow::{Context, Result};
use millstream_bench::{expressions, plot, table};
use millstream_runtime::config::Config;
use millstream_runtime::{signals, telemetry};
use serde::Serialize;

use super::arguments::{BenchArgs, BenchCommand, BenchExpressionsArgs};
use super::plan::{bench_subject, build_plan};

pub(crate) async fn run(args: &BenchArgs, config: &Config) -> Result<()> {
    let mut own = config.clone();
    // The bench prints a progress bar and tables; log lines of its own store would break them.
    if own.log == "info" {
        own.log = "error".to_owned();
    }
    telemetry::start_logging(&own)?;
    match &args.command {
        Some(BenchCommand::Completions(wanted)) => print_line(&wanted.script()),
        Some(BenchCommand::Expressions(wanted)) => measure_expressions(args, wanted).await,
        Some(
            BenchCommand::Graph(_)
            | BenchCommand::People(_)
            | BenchCommand::Devices(_)
            | BenchCommand::Fairness(_),
        )
        | None => measure_engine(args, config).await,
    }
}

async fn measure_expressions(args: &BenchArgs, wanted: &BenchExpressionsArgs) -> Result<()> {
    let (cases, seed) = (wanted.cases, wanted.seed);
    let report = tokio::task::spawn_blocking(move || expressions::measure_cases(cases, seed)).await??;
    show_report(args, &report, expressions::render_report)
}

async fn measure_engine(args: &BenchArgs, config: &Config) -> Result<()> {
    let plan = build_plan(args, config)?;
    let shutdown = signals::shutdown_token()?;
    let report = millstream_bench::run(&plan, shutdown.cancelled()).await?;
    if let Some(file) = &bench_subject(args).plot {
        std::fs::write(file, plot::draw_report(&report))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    show_report(args, &report, table::render_report)
}

fn show_report<R: Serialize>(args: &BenchArgs, report: &R, render: impl FnOnce(&R) -> String) -> Result<()> {
    if args.global.json {
        return print_line(&serde_json::to_string_pretty(&serde_json::to_value(report)?)?);
    }
    print_line(&render(report))
}

/// Prints to stdout. A closed reader (`| head`) is not an error.
fn print_line(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

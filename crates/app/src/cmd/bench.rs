//! `millstream bench`: how fast, against a running engine or one that is started for it.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use millstream_bench::{Amount, BenchError, Plan, Size, Submit, Target, Workload, table};

use crate::cli::{BenchArgs, Global, SubmitArg};
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::output::Output;
use crate::{signals, telemetry};

pub(crate) async fn run(args: &BenchArgs, global: &Global, config: &Config, output: Output) -> Result<()> {
    telemetry::start_logging(config)?;
    let plan = plan(args, global, config)?;
    let shutdown = signals::shutdown_token()?;
    let report = millstream_bench::run(&plan, shutdown.cancelled()).await.map_err(failure)?;
    output.show(&serde_json::to_value(&report)?, |_| table::render(&report))
}

fn plan(args: &BenchArgs, global: &Global, config: &Config) -> Result<Plan> {
    let submit = match args.submit {
        SubmitArg::Single => Submit::Single,
        SubmitArg::Ndjson => Submit::Ndjson { batch: args.batch },
    };
    let amount = match (args.events, &args.length) {
        (Some(events), _) => Some(Amount::Events(events)),
        (None, Some(text)) => Some(Amount::For(span(text).context("--for")?)),
        (None, None) => None,
    };
    Ok(Plan {
        target: target(args, global, config)?,
        binary: std::env::current_exe().context("cannot tell which program this is")?,
        settings: settings(global),
        workloads: Workload::list(&args.workload).map_err(failure)?,
        submit,
        connections: args.connections.unwrap_or(submit.default_connections()),
        amount,
        runs: args.runs,
        warmup: if args.smoke { args.warmup.min(100) } else { args.warmup },
        size: if args.smoke { Size::Smoke } else { Size::Full },
    })
}

fn target(args: &BenchArgs, global: &Global, config: &Config) -> Result<Target> {
    let refuse = |text: String| anyhow!(Failure::new(ExitCode::Invalid, text));
    if (args.embedded || args.fleet.is_some()) && global.url.is_some() {
        return Err(refuse("--url is a running engine; --embedded and --fleet start one: choose".to_owned()));
    }
    if args.embedded {
        return Ok(Target::Embedded { workers: args.loops.max(1) });
    }
    let Some(workers) = args.fleet else {
        let Some(url) = &global.url else {
            return Err(refuse(
                "what shall be measured? --embedded starts an engine on SQLite, --fleet N one on PostgreSQL and Redis, --url names a running one".to_owned(),
            ));
        };
        return Ok(Target::Url { url: url.clone(), key: config.key.clone() });
    };
    let mut missing = Vec::new();
    if !config.database_url.starts_with("postgres") {
        missing.push("--database-url postgres://… (or MILLSTREAM_DATABASE_URL)");
    }
    if config.redis_url.is_empty() {
        missing.push("--redis-url redis://… (or MILLSTREAM_REDIS_URL)");
    }
    if !missing.is_empty() {
        return Err(refuse(format!(
            "--fleet needs services that are running: {} missing; scripts/bench starts private ones",
            missing.join(" and ")
        )));
    }
    if !(1..=64).contains(&workers) {
        return Err(refuse("--fleet: between 1 and 64 workers".to_owned()));
    }
    Ok(Target::Fleet {
        workers,
        database_url: config.database_url.clone(),
        redis_url: config.redis_url.clone(),
    })
}

/// What engines are told beside their own environment, which is ours.
fn settings(global: &Global) -> Vec<(String, String)> {
    let log = global.log.clone().unwrap_or_else(|| "warn".to_owned());
    let mut settings = vec![("MILLSTREAM_LOG".to_owned(), log)];
    if let Some(file) = &global.config {
        let file = file.canonicalize().unwrap_or_else(|_| file.clone());
        settings.push(("MILLSTREAM_CONFIG".to_owned(), file.display().to_string()));
    }
    settings
}

fn span(text: &str) -> Result<Duration> {
    millstream_core::duration::parse(text).map_err(|error| anyhow!("{text:?}: {error}"))
}

fn failure(error: BenchError) -> anyhow::Error {
    let code = match &error {
        BenchError::Usage(_) | BenchError::Machine { .. } => ExitCode::Invalid,
        BenchError::Unreachable { .. } => ExitCode::Unreachable,
        BenchError::Wrong(_) => ExitCode::Different,
    };
    anyhow!(Failure::new(code, error.to_string()))
}

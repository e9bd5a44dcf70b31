//! `millstream bench`: measures a running engine, or one that is started for it.
//!
//! Maps the command line to a plan; `millstream-bench` does the measuring.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use millstream_bench::{
    Amount, BenchError, Complete, Devices, Fairness, GraphShape, Graphs, Line, Measure, People, Plan,
    Progress, Rate, Size, Submit, Target, Workload, expressions, plot, table,
};
use millstream_runtime::config::Config;
use millstream_runtime::{signals, telemetry};

use crate::cli::{
    BenchArgs, BenchCommand, BenchDevicesArgs, BenchFairnessArgs, BenchGraphArgs, BenchPeopleArgs,
    BenchSubject, CompleteArg, Global, SubmitArg,
};
use crate::failure::{ExitCode, Failure};
use crate::output::Output;

pub(crate) async fn run(args: &BenchArgs, global: &Global, config: &Config, output: Output) -> Result<()> {
    let mut own = config.clone();
    // The bench prints a progress bar and tables; log lines of its own store would break them.
    if own.log == "info" {
        own.log = "error".to_owned();
    }
    telemetry::start_logging(&own)?;
    if let Some(BenchCommand::Expressions(wanted)) = &args.command {
        let (cases, seed) = (wanted.cases, wanted.seed);
        let measured = tokio::task::spawn_blocking(move || expressions::measure(cases, seed)).await?;
        let report = measured.map_err(failure)?;
        return output.show(&serde_json::to_value(&report)?, |_| expressions::render(&report));
    }
    let plan = plan(args, global, config, output)?;
    let shutdown = signals::shutdown_token()?;
    let report = millstream_bench::run(&plan, shutdown.cancelled()).await.map_err(failure)?;
    if let Some(file) = &subject(args).plot {
        std::fs::write(file, plot::draw(&report))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    output.show(&serde_json::to_value(&report)?, |_| table::render(&report))
}

/// The options of a subcommand such as `bench graph` replace those of `bench`, which then keep their
/// defaults.
fn subject(args: &BenchArgs) -> &BenchSubject {
    match &args.command {
        None | Some(BenchCommand::Expressions(_)) => &args.subject,
        Some(BenchCommand::Graph(graph)) => &graph.subject,
        Some(BenchCommand::People(people)) => &people.subject,
        Some(BenchCommand::Devices(devices)) => &devices.subject,
        Some(BenchCommand::Fairness(fairness)) => &fairness.subject,
    }
}

fn plan(args: &BenchArgs, global: &Global, config: &Config, output: Output) -> Result<Plan> {
    let submit = match args.submit {
        SubmitArg::Single => Submit::Single,
        SubmitArg::Ndjson => Submit::Ndjson { batch: args.batch },
    };
    let amount = match (args.events, &args.length) {
        (Some(events), _) => Some(Amount::Events(events)),
        (None, Some(text)) => Some(Amount::For(span(text).context("--for")?)),
        (None, None) => None,
    };
    let subject = subject(args);
    let wanted = wanted(args)?;
    let target = target(subject, global, config)?;
    let mut workloads = Workload::list(&args.workload).map_err(failure)?;
    // `all` against a running engine leaves out the workloads that need to start it.
    if args.workload == "all" && matches!(target, Target::Url { .. }) {
        workloads.retain(|workload| !matches!(workload, Workload::Backlog | Workload::Call));
    }
    Ok(Plan {
        measures: if args.command.is_none() { measures(args, &target)? } else { Vec::new() },
        graphs: wanted.graphs,
        people: wanted.people,
        line: wanted.line,
        devices: wanted.devices,
        fairness: wanted.fairness,
        target,
        binary: std::env::current_exe().context("cannot tell which program this is")?,
        settings: settings(subject, global),
        workloads,
        submit,
        connections: args.connections.unwrap_or(submit.default_connections()),
        complete: match args.complete {
            CompleteArg::Single => Complete::Single,
            CompleteArg::Batch => Complete::Batch,
        },
        amount,
        runs: subject.runs,
        pollers: args.pollers,
        warmup: if subject.smoke { args.warmup.min(50) } else { args.warmup },
        rates: Rate::list(&args.rate).map_err(failure)?,
        action_wait: match &args.action_wait {
            Some(text) => span(text).context("--action-wait")?,
            None if wanted.is_about_tenants => SLOW_ACTION,
            None => Duration::ZERO,
        },
        size: if subject.smoke { Size::Smoke } else { Size::Full },
        progress: match output {
            Output::Text => Progress::Shown,
            Output::Json => Progress::Hidden,
        },
    })
}

/// Response time of the HTTP target in `bench fairness`.
const SLOW_ACTION: Duration = Duration::from_millis(50);

/// Measurements of the subcommands, such as `bench graph`.
#[derive(Debug, Default)]
struct Wanted {
    graphs: Option<Graphs>,
    people: Option<People>,
    line: Option<Line>,
    devices: Option<Devices>,
    fairness: Option<Fairness>,
    is_about_tenants: bool,
}

fn wanted(args: &BenchArgs) -> Result<Wanted> {
    let mut all = Wanted::default();
    match &args.command {
        None | Some(BenchCommand::Expressions(_)) => {}
        Some(BenchCommand::Graph(wanted)) => all.graphs = Some(graphs(wanted).map_err(failure)?),
        Some(BenchCommand::People(wanted)) => {
            all.people = people(wanted);
            all.line = line(wanted)?;
        }
        Some(BenchCommand::Devices(wanted)) => all.devices = Some(devices(wanted)?),
        Some(BenchCommand::Fairness(wanted)) => {
            all.fairness = Some(fairness(wanted));
            all.is_about_tenants = true;
        }
    }
    Ok(all)
}

fn fairness(args: &BenchFairnessArgs) -> Fairness {
    let (backlog, idle) = if args.subject.smoke { (600, 10) } else { (100_000, 200) };
    Fairness { backlog: args.backlog.unwrap_or(backlog), idle: args.idle.unwrap_or(idle) }
}

fn graphs(args: &BenchGraphArgs) -> millstream_bench::Result<Graphs> {
    let (sizes, warmup) = match args.subject.smoke {
        false => ("1000,10000", args.warmup),
        true => ("30,90", args.warmup.min(30)),
    };
    Ok(Graphs {
        shapes: GraphShape::list(&args.shape)?,
        nodes: Graphs::sizes(args.nodes.as_deref().unwrap_or(sizes))?,
        capacity: args.capacity,
        warmup,
    })
}

fn people(args: &BenchPeopleArgs) -> Option<People> {
    let (items, warmup) = match args.subject.smoke {
        false => (20_000, args.warmup),
        true => (60, args.warmup.min(10)),
    };
    let items = args.items.unwrap_or(items);
    args.line.is_none().then_some(People { people: args.people, items, overlap: args.overlap, warmup })
}

fn line(args: &BenchPeopleArgs) -> Result<Option<Line>> {
    let Some(items) = args.line else { return Ok(None) };
    let length = match (&args.length, args.subject.smoke) {
        (Some(text), _) => span(text).context("--for")?,
        (None, false) => Duration::from_secs(30),
        (None, true) => Duration::from_secs(1),
    };
    Ok(Some(Line { items, per_second: args.rate, length }))
}

fn devices(args: &BenchDevicesArgs) -> Result<Devices> {
    let (devices, length, warmup) = match args.subject.smoke {
        false => (1_000, Duration::from_secs(20), args.warmup),
        true => (20, Duration::from_millis(200), args.warmup.min(10)),
    };
    Ok(Devices {
        devices: args.devices.unwrap_or(devices),
        per_second: args.rate,
        length: args.length.as_deref().map_or(Ok(length), span).context("--for")?,
        warmup,
        connections: args.connections,
    })
}

fn target(args: &BenchSubject, global: &Global, config: &Config) -> Result<Target> {
    if (args.embedded || args.fleet.is_some()) && global.url.is_some() {
        return Err(invalid("--url names a running engine; --embedded and --fleet start one: choose"));
    }
    if args.embedded {
        return Ok(Target::Embedded { workers: args.loops.max(1) });
    }
    let Some(workers) = args.fleet else {
        let Some(url) = &global.url else {
            return Err(invalid(
                "what shall be measured? --embedded starts an engine on SQLite, --fleet N one on PostgreSQL and Redis, --url names a running one",
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
        return Err(invalid(&format!(
            "--fleet needs services that are running; missing: {}. scripts/bench starts private ones",
            missing.join(" and ")
        )));
    }
    if !(1..=64).contains(&workers) {
        return Err(invalid("--fleet: between 1 and 64 workers"));
    }
    Ok(Target::Fleet {
        workers,
        database_url: config.database_url.clone(),
        redis_url: config.redis_url.clone(),
    })
}

fn measures(args: &BenchArgs, target: &Target) -> Result<Vec<Measure>> {
    let mut measures = match (&args.measure, target) {
        (None, Target::Url { .. }) => vec![Measure::Throughput, Measure::Latency],
        (None, Target::Embedded { .. } | Target::Fleet { .. }) => {
            vec![Measure::Throughput, Measure::Latency, Measure::Floor]
        }
        (Some(list), _) => list.split(',').map(|word| measure(word.trim())).collect::<Result<_>>()?,
    };
    if args.floor_raw {
        measures.push(Measure::FloorRaw);
    }
    if measures.contains(&Measure::Floor) && !measures.contains(&Measure::Throughput) {
        return Err(invalid(
            "--measure: the floor has the batch sizes of a throughput run: throughput,floor belong together",
        ));
    }
    Ok(measures)
}

fn measure(word: &str) -> Result<Measure> {
    match word {
        "throughput" => Ok(Measure::Throughput),
        "latency" => Ok(Measure::Latency),
        "floor" => Ok(Measure::Floor),
        "pollers" => Ok(Measure::Pollers),
        other => Err(invalid(&format!(
            "--measure: there is no measure {other:?}; there are throughput, latency, floor and pollers"
        ))),
    }
}

/// Settings of the started engines, in addition to the inherited environment.
fn settings(args: &BenchSubject, global: &Global) -> Vec<(String, String)> {
    let log = global.log.clone().unwrap_or_else(|| "warn".to_owned());
    let mut settings = vec![("MILLSTREAM_LOG".to_owned(), log)];
    if let Some(file) = &global.config {
        let file = file.canonicalize().unwrap_or_else(|_| file.clone());
        settings.push(("MILLSTREAM_CONFIG".to_owned(), file.display().to_string()));
    }
    if let Some(slots) = args.action_slots {
        settings.push(("MILLSTREAM_WORKER__ACTION_SLOTS".to_owned(), slots.to_string()));
    }
    settings
}

fn span(text: &str) -> Result<Duration> {
    millstream_core::duration::parse(text).map_err(|error| anyhow!("{text:?}: {error}"))
}

fn invalid(text: &str) -> anyhow::Error {
    anyhow!(Failure::new(ExitCode::Invalid, text))
}

fn failure(error: BenchError) -> anyhow::Error {
    let code = match &error {
        BenchError::Usage(_) | BenchError::Machine { .. } => ExitCode::Invalid,
        BenchError::Unreachable { .. } => ExitCode::Unreachable,
        BenchError::Wrong(_) | BenchError::Interrupted => ExitCode::Different,
    };
    anyhow!(Failure::new(code, error.to_string()))
}

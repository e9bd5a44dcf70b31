//! From arguments and settings to the plan of a bench.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use millstream_bench::{
    BenchError, BenchMeasure, BenchPlan, BenchProgress, BenchSize, BenchTarget, DeviceBench, FairnessBench,
    GraphBench, GraphShape, LineBench, LoadAmount, LoadRate, PeopleBench, SubmitMode, TaskCompletion,
    Workload,
};
use millstream_runtime::config::Config;

use super::arguments::{
    BenchArgs, BenchCommand, BenchGlobalArgs, BenchGraphArgs, BenchSubject, CompleteArg, SubmitArg,
};
use super::work_arguments::{BenchDevicesArgs, BenchFairnessArgs, BenchPeopleArgs};

/// The engine's program.
const ENGINE: &str = "millstream";

/// The options of a subcommand such as `bench graph` replace those of `bench`, which then keep their
/// defaults.
pub(super) fn bench_subject(args: &BenchArgs) -> &BenchSubject {
    match &args.command {
        None | Some(BenchCommand::Expressions(_) | BenchCommand::Completions(_)) => &args.subject,
        Some(BenchCommand::Graph(graph)) => &graph.subject,
        Some(BenchCommand::People(people)) => &people.subject,
        Some(BenchCommand::Devices(devices)) => &devices.subject,
        Some(BenchCommand::Fairness(fairness)) => &fairness.subject,
    }
}

pub(super) fn build_plan(args: &BenchArgs, config: &Config) -> Result<BenchPlan> {
    let global = &args.global;
    let submit = match args.submit {
        SubmitArg::Single => SubmitMode::Single,
        SubmitArg::Ndjson => SubmitMode::Ndjson { batch: args.batch },
    };
    let amount = match (args.events, &args.length) {
        (Some(events), _) => Some(LoadAmount::Events(events)),
        (None, Some(text)) => Some(LoadAmount::For(parse_span(text).context("--for")?)),
        (None, None) => None,
    };
    let subject = bench_subject(args);
    let wanted = requested_benches(args)?;
    let target = bench_target(subject, global, config)?;
    let mut workloads = Workload::parse_list(&args.workload)?;
    // `all` against a running engine leaves out the workloads that need to start it.
    if args.workload == "all" && matches!(target, BenchTarget::Url { .. }) {
        workloads.retain(|workload| !matches!(workload, Workload::Backlog | Workload::Call));
    }
    Ok(BenchPlan {
        measures: if args.command.is_none() { parse_measures(args, &target)? } else { Vec::new() },
        graphs: wanted.graphs,
        people: wanted.people,
        line: wanted.line,
        devices: wanted.devices,
        fairness: wanted.fairness,
        target,
        binary: engine_binary(global.binary.as_deref())?,
        settings: engine_settings(subject, global),
        workloads,
        submit,
        connections: args.connections.unwrap_or(submit.default_connections()),
        complete: match args.complete {
            CompleteArg::Single => TaskCompletion::Single,
            CompleteArg::Batch => TaskCompletion::Batch,
        },
        amount,
        runs: subject.runs,
        pollers: args.pollers,
        warmup: if subject.smoke { args.warmup.min(50) } else { args.warmup },
        rates: LoadRate::parse_list(&args.rate)?,
        action_wait: match &args.action_wait {
            Some(text) => parse_span(text).context("--action-wait")?,
            None if wanted.is_about_tenants => SLOW_ACTION,
            None => Duration::ZERO,
        },
        size: if subject.smoke { BenchSize::Smoke } else { BenchSize::Full },
        progress: if global.json { BenchProgress::Hidden } else { BenchProgress::Shown },
    })
}

/// The given one, or the one beside this program, or the one that `PATH` leads to.
fn engine_binary(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given {
        return std::path::absolute(given).context("--binary");
    }
    let own = std::env::current_exe().context("cannot tell which program this is")?;
    let beside = own.with_file_name(ENGINE);
    Ok(if beside.is_file() { beside } else { ENGINE.into() })
}

/// Response time of the HTTP target in `bench fairness`.
const SLOW_ACTION: Duration = Duration::from_millis(50);

/// Measurements of the subcommands, such as `bench graph`.
#[derive(Debug, Default)]
struct RequestedBenches {
    graphs: Option<GraphBench>,
    people: Option<PeopleBench>,
    line: Option<LineBench>,
    devices: Option<DeviceBench>,
    fairness: Option<FairnessBench>,
    is_about_tenants: bool,
}

fn requested_benches(args: &BenchArgs) -> Result<RequestedBenches> {
    let mut all = RequestedBenches::default();
    match &args.command {
        None | Some(BenchCommand::Expressions(_) | BenchCommand::Completions(_)) => {}
        Some(BenchCommand::Graph(wanted)) => all.graphs = Some(graph_plan(wanted)?),
        Some(BenchCommand::People(wanted)) => {
            all.people = people_plan(wanted);
            all.line = line_plan(wanted)?;
        }
        Some(BenchCommand::Devices(wanted)) => all.devices = Some(device_plan(wanted)?),
        Some(BenchCommand::Fairness(wanted)) => {
            all.fairness = Some(fairness_plan(wanted));
            all.is_about_tenants = true;
        }
    }
    Ok(all)
}

fn fairness_plan(args: &BenchFairnessArgs) -> FairnessBench {
    let (backlog, idle) = if args.subject.smoke { (600, 10) } else { (100_000, 200) };
    FairnessBench { backlog: args.backlog.unwrap_or(backlog), idle: args.idle.unwrap_or(idle) }
}

fn graph_plan(args: &BenchGraphArgs) -> millstream_bench::BenchResult<GraphBench> {
    let (sizes, warmup) = match args.subject.smoke {
        false => ("1000,10000", args.warmup),
        true => ("30,90", args.warmup.min(30)),
    };
    Ok(GraphBench {
        shapes: GraphShape::parse_list(&args.shape)?,
        nodes: GraphBench::parse_sizes(args.nodes.as_deref().unwrap_or(sizes))?,
        capacity: args.capacity,
        warmup,
    })
}

fn people_plan(args: &BenchPeopleArgs) -> Option<PeopleBench> {
    let (items, warmup) = match args.subject.smoke {
        false => (20_000, args.warmup),
        true => (60, args.warmup.min(10)),
    };
    let items = args.items.unwrap_or(items);
    args.line.is_none().then_some(PeopleBench { people: args.people, items, overlap: args.overlap, warmup })
}

fn line_plan(args: &BenchPeopleArgs) -> Result<Option<LineBench>> {
    let Some(items) = args.line else { return Ok(None) };
    let length = match (&args.length, args.subject.smoke) {
        (Some(text), _) => parse_span(text).context("--for")?,
        (None, false) => Duration::from_secs(30),
        (None, true) => Duration::from_secs(1),
    };
    Ok(Some(LineBench { items, per_second: args.rate, length }))
}

fn device_plan(args: &BenchDevicesArgs) -> Result<DeviceBench> {
    let (devices, length, warmup) = match args.subject.smoke {
        false => (1_000, Duration::from_secs(20), args.warmup),
        true => (20, Duration::from_millis(200), args.warmup.min(10)),
    };
    Ok(DeviceBench {
        devices: args.devices.unwrap_or(devices),
        per_second: args.rate,
        length: args.length.as_deref().map_or(Ok(length), parse_span).context("--for")?,
        warmup,
        connections: args.connections,
    })
}

fn bench_target(args: &BenchSubject, global: &BenchGlobalArgs, config: &Config) -> Result<BenchTarget> {
    if (args.embedded || args.fleet.is_some()) && global.url.is_some() {
        return Err(invalid_usage("--url names a running engine; --embedded and --fleet start one: choose"));
    }
    if args.embedded {
        return Ok(BenchTarget::Embedded { workers: args.loops.max(1) });
    }
    let Some(workers) = args.fleet else {
        let Some(url) = &global.url else {
            return Err(invalid_usage(
                "what shall be measured? --embedded starts an engine on SQLite, --fleet N one on PostgreSQL and Redis, --url names a running one",
            ));
        };
        return Ok(BenchTarget::Url { url: url.clone(), key: config.key.clone() });
    };
    let mut missing = Vec::new();
    if !config.database_url.starts_with("postgres") {
        missing.push("--database-url postgres://… (or MILLSTREAM_DATABASE_URL)");
    }
    if config.redis_url.is_empty() {
        missing.push("--redis-url redis://… (or MILLSTREAM_REDIS_URL)");
    }
    if !missing.is_empty() {
        return Err(invalid_usage(&format!(
            "--fleet needs services that are running; missing: {}. scripts/bench starts private ones",
            missing.join(" and ")
        )));
    }
    if !(1..=64).contains(&workers) {
        return Err(invalid_usage("--fleet: between 1 and 64 workers"));
    }
    Ok(BenchTarget::Fleet {
        workers,
        database_url: config.database_url.clone(),
        redis_url: config.redis_url.clone(),
    })
}

fn parse_measures(args: &BenchArgs, target: &BenchTarget) -> Result<Vec<BenchMeasure>> {
    let mut measures = match (&args.measure, target) {
        (None, BenchTarget::Url { .. }) => vec![BenchMeasure::Throughput, BenchMeasure::Latency],
        (None, BenchTarget::Embedded { .. } | BenchTarget::Fleet { .. }) => {
            vec![BenchMeasure::Throughput, BenchMeasure::Latency, BenchMeasure::Floor]
        }
        (Some(list), _) => list.split(',').map(|word| parse_measure(word.trim())).collect::<Result<_>>()?,
    };
    if args.floor_raw {
        measures.push(BenchMeasure::FloorRaw);
    }
    if measures.contains(&BenchMeasure::Floor) && !measures.contains(&BenchMeasure::Throughput) {
        return Err(invalid_usage(
            "--measure: the floor has the batch sizes of a throughput run: throughput,floor belong together",
        ));
    }
    Ok(measures)
}

fn parse_measure(word: &str) -> Result<BenchMeasure> {
    match word {
        "throughput" => Ok(BenchMeasure::Throughput),
        "latency" => Ok(BenchMeasure::Latency),
        "floor" => Ok(BenchMeasure::Floor),
        "pollers" => Ok(BenchMeasure::Pollers),
        other => Err(invalid_usage(&format!(
            "--measure: there is no measure {other:?}; there are throughput, latency, floor and pollers"
        ))),
    }
}

/// Settings of the started engines, in addition to the inherited environment.
fn engine_settings(args: &BenchSubject, global: &BenchGlobalArgs) -> Vec<(String, String)> {
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

fn parse_span(text: &str) -> Result<Duration> {
    millstream_model::duration::parse(text).map_err(|error| anyhow!("{text:?}: {error}"))
}

fn invalid_usage(text: &str) -> anyhow::Error {
    BenchError::Usage(text.to_owned()).into()
}

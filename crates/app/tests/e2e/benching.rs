//! `millstream bench` in its smoke size: every workload and measure works and adds up. No speeds.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use millstream_testkit::postgres::{self, TestCluster};
use millstream_testkit::redis::{self, TestRedis};
use millstream_testkit::{FleetMode, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::world::{EMBEDDED, FLEET, SOON, start_world};

const WORKLOADS: [&str; 10] =
    ["many", "plain", "chain", "hot", "payload", "backlog", "history", "http", "call", "task"];
const STAGES: [&str; 4] = ["accepted", "applied", "action_started", "completed"];

/// The binary without settings of the caller. A run of all tests has built `millstream-bench` beside it.
fn command() -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_millstream"));
    let bench = binary.with_file_name("millstream-bench");
    assert!(bench.exists(), "{} is missing: cargo build --workspace --bins", bench.display());
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MILLSTREAM_")) {
        command.env_remove(name);
    }
    command.arg("bench");
    command
}

pub(crate) fn run_bench(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("run the binary")
}

#[track_caller]
pub(crate) fn parse_report(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {output:?}"))
}

/// Invariants of every run, whatever the speed.
#[track_caller]
fn assert_report_adds_up(report: &Value, roles: &[&str]) {
    let workloads = report["workloads"].as_array().unwrap();
    let names: Vec<&str> = workloads.iter().map(|one| one["workload"].as_str().unwrap()).collect();
    assert_eq!(names, WORKLOADS);
    for one in workloads {
        let (name, run) = (&one["workload"], &one["median"]);
        let events = run["events"].as_u64().unwrap();
        assert!(events >= 100, "{name}: {events}");
        assert!(run["end_to_end_per_second"].as_f64().unwrap() > 0.0, "{name}");
        assert_eq!(one["runs"].as_array().unwrap().len(), 1, "{name}");
        let seen: Vec<&str> =
            run["roles"].as_array().unwrap().iter().map(|role| role["role"].as_str().unwrap()).collect();
        for role in roles {
            assert!(seen.contains(role), "{name}: no {role} among {seen:?}");
        }
    }
    let of = |name: &str| &workloads[WORKLOADS.iter().position(|known| *known == name).unwrap()];
    assert_eq!(of("chain")["median"]["executions"], 40);
    assert_eq!(of("hot")["median"]["executions"], 10);
    assert_eq!(of("history")["median"]["history"]["events"], of("history")["median"]["events"]);
    assert!(of("many")["floor"]["end_to_end_ratio"].as_f64().unwrap() > 0.0);
    assert!(of("many")["median"]["batches"]["append_items"]["mean"].as_f64().unwrap() > 1.0);
    assert_eq!(of("hot")["floor"], Value::Null);
    let figures = report["latency"]["figures"].as_array().unwrap();
    let stages: Vec<&str> = figures.iter().map(|figure| figure["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, [STAGES, STAGES].concat(), "two rates");
    for figure in figures {
        assert!(figure["latency"]["count"].as_u64().unwrap() > 0, "{figure}");
        assert!(figure["latency"]["p50_ms"].as_f64() <= figure["latency"]["p99_ms"].as_f64(), "{figure}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_measures_embedded_engine() {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("bench.svg");
    let plot_path = plot.display().to_string();
    let everything = ["--measure", "throughput,latency,floor,pollers", "--pollers", "20"];
    let arguments = ["--embedded", "--smoke", "--workload", "all", "--json", "--plot", &plot_path];
    let report = parse_report(&run_bench(&[&arguments[..], &everything[..]].concat()));
    let pollers = &report["pollers"];
    assert_eq!((&pollers["workers"], &pollers["single"]["count"]), (&20.into(), &10.into()), "{pollers}");
    assert_eq!((&pollers["burst"]["size"], &pollers["burst"]["wake"]["count"]), (&20.into(), &40.into()));
    assert!(pollers["ingress_rss_idle"].as_u64().unwrap() > 0, "{pollers}");
    assert!(report["task_to_call"]["throughput"]["median"].as_f64().unwrap() > 0.0);
    assert_report_adds_up(&report, &["embedded", "generator"]);
    assert_eq!(report["sqlite"]["synchronous"], "full");
    let picture = std::fs::read_to_string(plot).unwrap();
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"), "{picture}");
    assert!(picture.contains("Throughput, median run") && picture.contains("Latency from POST"));
}

/// Every shape in both sizes, whatever the speed.
#[track_caller]
fn assert_graphs_add_up(report: &Value, roles: &[&str]) {
    let graphs = report["graphs"]["graphs"].as_array().unwrap();
    let kinds: Vec<(&str, u64)> = graphs
        .iter()
        .map(|graph| (graph["shape"].as_str().unwrap(), graph["nodes"].as_u64().unwrap()))
        .collect();
    assert_eq!(kinds, [("flat", 30), ("flat", 90), ("levels", 30), ("levels", 90)]);
    for graph in graphs {
        let run = &graph["median"];
        assert_eq!((graph["runs"].as_array().unwrap().len(), &run["nodes"]), (2, &90.into()), "{graph}");
        assert_eq!(run["graphs"].as_u64().unwrap() * graph["nodes"].as_u64().unwrap(), 90, "{graph}");
        assert!(run["create_seconds"].as_f64() < run["seconds"].as_f64(), "{graph}");
        let speed = &graph["nodes_per_second"];
        assert!(speed["least"].as_f64().unwrap() > 0.0 && speed["least"].as_f64() <= speed["most"].as_f64());
        let seen: Vec<&str> =
            run["roles"].as_array().unwrap().iter().map(|role| role["role"].as_str().unwrap()).collect();
        assert_eq!(seen, roles, "{graph}");
        let known = roles != ["executor", "generator"];
        assert_eq!(graph["engine_cpu_micros_per_node"].is_object(), known, "{graph}");
        assert_eq!(run["cpu_micros_per_node"].is_number(), known, "{graph}");
    }
    let growth = report["graphs"]["growth"].as_array().unwrap();
    assert_eq!(growth.len(), 2, "one for each shape");
    for growth in growth {
        assert_eq!((&growth["least_nodes"], &growth["most_nodes"]), (&30.into(), &90.into()), "{growth}");
        assert!(growth["time"]["median"].as_f64().unwrap() > 0.0, "{growth}");
    }
}

#[test]
fn bench_graphs_on_embedded_engine() {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("graphs.svg");
    let plot_path = plot.display().to_string();
    let report = parse_report(&run_bench(&[
        "graph",
        "--embedded",
        "--smoke",
        "--json",
        "--runs",
        "2",
        "--capacity",
        "7",
        "--plot",
        &plot_path,
    ]));
    assert_graphs_add_up(&report, &["embedded", "executor", "generator"]);
    assert_eq!(report["graphs"]["capacity"], 7);
    assert_eq!((&report["workloads"], &report["latency"]), (&serde_json::json!([]), &Value::Null));
    let picture = std::fs::read_to_string(plot).unwrap();
    assert!(picture.contains("levels 90") && picture.contains("What a node costs"), "{picture}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_graphs_on_private_fleet() {
    let (cluster, redis) = start_services().await;
    let database = cluster.database_url("postgres");
    let urls = ["--database-url", &database, "--redis-url", &redis.url];
    let arguments = ["graph", "--fleet", "2", "--smoke", "--json", "--runs", "2"];
    let report = parse_report(&run_bench(&[&arguments[..], &urls[..]].concat()));
    assert_graphs_add_up(
        &report,
        &["ingress", "worker 1", "worker 2", "executor", "postgres", "redis", "generator"],
    );
    assert_eq!(databases_left(&cluster).await, 0);
}

/// The executor of the bench is gone from the list of an engine that goes on.
async fn graphs_of_a_running_engine(mode: FleetMode) {
    let world = start_world(mode).await;
    let arguments = ["graph", "--url", &world.fleet.url(), "--smoke", "--json", "--runs", "2"];
    assert_graphs_add_up(&parse_report(&run_bench(&arguments)), &["executor", "generator"]);
    assert_eq!(world.api.all_pages("/v1/executors").await, [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_graphs_on_running_embedded_engine() {
    graphs_of_a_running_engine(EMBEDDED).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_graphs_on_running_fleet() {
    graphs_of_a_running_engine(FLEET).await;
}

/// A separate cluster, so that databases of other tests are not counted.
pub(crate) async fn start_services() -> (TestCluster, TestRedis) {
    (postgres::private_cluster().await, redis::private_redis().await)
}

pub(crate) async fn databases_left(cluster: &TestCluster) -> u64 {
    postgres::execute_statement(
        &cluster.database_url("postgres"),
        "SELECT FROM pg_database WHERE datname LIKE 'millstream\\_bench\\_%'",
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_fleet_removes_its_private_data() {
    let (cluster, redis) = start_services().await;
    let database = cluster.database_url("postgres");
    let urls = ["--database-url", &database, "--redis-url", &redis.url];
    let arguments = ["--fleet", "2", "--smoke", "--workload", "all", "--floor-raw", "--json"];
    let report = parse_report(&run_bench(&[&arguments[..], &urls[..]].concat()));
    assert_report_adds_up(&report, &["ingress", "worker 1", "worker 2", "postgres", "redis", "generator"]);
    assert!(report["postgres"]["settings"]["synchronous_commit"].is_string());
    assert!(report["floor_raw"]["median"].as_f64().unwrap() > 0.0);
    assert_eq!(databases_left(&cluster).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_bench_cleans_up() {
    let (cluster, redis) = start_services().await;
    let database = cluster.database_url("postgres");
    let mut running = command()
        .args(["--fleet", "1", "--for", "60s", "--measure", "throughput"])
        .args(["--database-url", &database, "--redis-url", &redis.url])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let workers = || async {
        let connected = "SELECT FROM pg_stat_activity WHERE datname LIKE 'millstream\\_bench\\_%'";
        postgres::execute_statement(&database, connected).await
    };
    eventually(SOON, || async {
        if workers().await > 1 { Ok(()) } else { Err("no engine is connected yet") }
    })
    .await;
    kill(Pid::from_raw(running.id().cast_signed()), Signal::SIGINT).unwrap();
    let status = tokio::task::spawn_blocking(move || running.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(1));
    assert_eq!((workers().await, databases_left(&cluster).await), (0, 0));
}

async fn a_running_engine_is_measured_over_http_alone(mode: FleetMode) {
    let world = start_world(mode).await;
    let arguments = ["--url", &world.fleet.url(), "--smoke", "--workload", "many,http,history", "--json"];
    let report =
        parse_report(&run_bench(&[&arguments[..], &["--submit", "single", "--rate", "50"]].concat()));
    assert_eq!(report["workloads"].as_array().unwrap().len(), 3);
    assert_eq!(report["latency"]["figures"].as_array().unwrap().len(), 4);
    assert_eq!(report["submit"], "single");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_embedded_engine_is_measured() {
    a_running_engine_is_measured_over_http_alone(EMBEDDED).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_fleet_is_measured() {
    a_running_engine_is_measured_over_http_alone(FLEET).await;
}

#[test]
fn invalid_bench_arguments_are_explained() {
    let refused = |arguments: &[&str], code: i32, said: &str| {
        let output = run_bench(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    };
    refused(&[], 2, "--embedded");
    refused(&["--embedded", "--workload", "mny"], 2, "many, plain, chain, hot");
    refused(&["--embedded", "--fleet", "2"], 2, "cannot be used with");
    refused(&["--embedded", "--url", "http://127.0.0.1:1"], 2, "choose");
    refused(&["--fleet", "2"], 2, "--database-url postgres://");
    refused(&["--fleet", "2", "--database-url", "postgres://127.0.0.1/x"], 2, "--redis-url");
    refused(
        &["--fleet", "0", "--database-url", "postgres://h/x", "--redis-url", "redis://h"],
        2,
        "64 workers",
    );
    refused(&["--embedded", "--rate", "fast"], 2, "50%");
    refused(&["--embedded", "--measure", "speed"], 2, "throughput, latency, floor and pollers");
    refused(&["--embedded", "--measure", "floor"], 2, "belong together");
    refused(&["--embedded", "--for", "soon"], 2, "--for");
    refused(&["--embedded", "--events", "5", "--for", "5s"], 2, "cannot be used with");
    refused(&["--embedded", "--batch", "5000"], 2, "1000");
    refused(&["--embedded", "--floor-raw"], 2, "PostgreSQL");
    refused(&["--url", "http://127.0.0.1:1", "--workload", "backlog"], 2, "--fleet N");
    refused(&["graph"], 2, "--embedded");
    refused(&["graph", "--embedded", "--nodes", "5"], 2, "between 10 and 20000");
    refused(&["graph", "--embedded", "--shape", "round"], 2, "flat, levels and all");
    refused(&["graph", "--embedded", "--capacity", "0"], 2, "--capacity");
    refused(&["graph", "--embedded", "--warmup", "5"], 2, "--warmup");
    refused(&["graph", "--embedded", "--fleet", "2"], 2, "cannot be used with");
    refused(&["graph", "--embedded", "--workload", "hot"], 2, "--workload");
    refused(&["--embedded", "graph"], 2, "cannot be used with");
    refused(&["graph", "--url", "http://127.0.0.1:1"], 4, "cannot be reached");
    refused(&["--url", "https://127.0.0.1:1"], 2, "plain HTTP");
    refused(&["--url", "http://127.0.0.1:1"], 4, "cannot be reached");
    let database = "postgres://postgres@127.0.0.1:1/x";
    refused(
        &["--fleet", "1", "--database-url", database, "--redis-url", "redis://127.0.0.1:1"],
        4,
        "PostgreSQL",
    );
}

//! `millstream bench people` and `bench devices` in their smoke sizes: they work and add up. No speeds.

use millstream_testkit::FleetMode;
use serde_json::Value;

use crate::benching::{databases_left, parse_report, run_bench, start_services};
use crate::world::{EMBEDDED, FLEET, start_world};

#[track_caller]
fn roles_are(cost: &Value, roles: &[&str]) {
    let seen: Vec<&str> =
        cost["roles"].as_array().unwrap().iter().map(|role| role["role"].as_str().unwrap()).collect();
    assert_eq!(seen, roles, "{cost}");
    let known = roles != ["generator"];
    assert_eq!(cost["engine_cpu_micros"].is_number(), known, "{cost}");
    assert_eq!(cost["cpu_micros"].is_number(), known, "{cost}");
}

#[track_caller]
fn calls_are(run: &Value, calls: &[(&str, u64)]) {
    let seen: Vec<(&str, u64)> = run["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (call["call"].as_str().unwrap(), call["latency"]["count"].as_u64().unwrap()))
        .collect();
    assert_eq!(seen, calls, "{run}");
    for call in run["calls"].as_array().unwrap() {
        let latency = &call["latency"];
        assert!(latency["p50_ms"].as_f64() <= latency["p99_ms"].as_f64(), "{call}");
    }
}

/// 60 items, each done by two people.
#[track_caller]
fn people_add_up(report: &Value, runs: usize, roles: &[&str]) {
    let people = &report["people"];
    assert_eq!((&people["people"], &people["items"], &people["overlap"]), (&4.into(), &60.into(), &2.into()));
    assert_eq!(people["runs"].as_array().unwrap().len(), runs);
    for run in people["runs"].as_array().unwrap() {
        assert_eq!(run["answers"], 120, "{run}");
        calls_are(run, &[("next", 120), ("start", 120), ("submit", 120)]);
        assert!(run["answers_per_second"].as_f64().unwrap() > 0.0, "{run}");
        assert!(run["imported_per_second"].as_f64().unwrap() > 0.0, "{run}");
        roles_are(&run["cost"], roles);
    }
}

/// 100 runs, each accepted, started and completed by its assigned device.
#[track_caller]
fn devices_add_up(report: &Value, runs: usize, roles: &[&str]) {
    let devices = &report["devices"];
    assert_eq!((&devices["devices"], &devices["per_second"]), (&20.into(), &500.0.into()));
    assert_eq!(devices["runs"].as_array().unwrap().len(), runs);
    for run in devices["runs"].as_array().unwrap() {
        assert_eq!(run["created"], 100, "{run}");
        calls_are(run, &[("create", 100), ("accept", 100), ("start", 100), ("complete", 100)]);
        assert!(run["runs_per_second"].as_f64().unwrap() > 0.0, "{run}");
        roles_are(&run["create_cost"], roles);
        roles_are(&run["drive_cost"], roles);
    }
}

const PEOPLE: [&str; 7] = ["people", "--people", "4", "--overlap", "2", "--smoke", "--json"];
const DEVICES: [&str; 3] = ["devices", "--smoke", "--json"];

#[test]
fn bench_people_on_embedded_engine() {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("people.svg");
    let plot_path = plot.display().to_string();
    let arguments = [&PEOPLE[..], &["--embedded", "--runs", "2", "--plot", &plot_path]].concat();
    let report = parse_report(&run_bench(&arguments));
    people_add_up(&report, 2, &["embedded", "generator"]);
    assert_eq!((&report["workloads"], &report["graphs"]), (&serde_json::json!([]), &Value::Null));
    let picture = std::fs::read_to_string(plot).unwrap();
    assert!(picture.contains("People at work") && picture.contains("submit"), "{picture}");
}

#[test]
fn bench_devices_on_embedded_engine() {
    let report = parse_report(&run_bench(&[&DEVICES[..], &["--embedded", "--runs", "2"]].concat()));
    devices_add_up(&report, 2, &["embedded", "generator"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_people_and_devices_on_fleet() {
    let (cluster, redis) = start_services().await;
    let database = cluster.database_url("postgres");
    let fleet = ["--fleet", "1", "--database-url", &database, "--redis-url", &redis.url];
    let roles = ["ingress", "worker 1", "postgres", "redis", "generator"];
    people_add_up(&parse_report(&run_bench(&[&PEOPLE[..], &fleet[..]].concat())), 1, &roles);
    devices_add_up(&parse_report(&run_bench(&[&DEVICES[..], &fleet[..]].concat())), 1, &roles);
    assert_eq!(databases_left(&cluster).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_line_gives_only_permitted_items() {
    let (cluster, redis) = start_services().await;
    let database = cluster.database_url("postgres");
    let fleet = ["--fleet", "1", "--database-url", &database, "--redis-url", &redis.url];
    let arguments = ["people", "--line", "20000", "--rate", "40", "--smoke", "--json"];
    let report = parse_report(&run_bench(&[&arguments[..], &fleet[..]].concat()));
    let figures = report["line"]["figures"].as_array().unwrap();
    let calls: Vec<&str> = figures.iter().map(|figure| figure["call"].as_str().unwrap()).collect();
    assert_eq!(
        calls,
        ["next in one queue", "next in ten queues", "next after the head of the line"],
        "{report}"
    );
    for (figure, wanted) in figures.iter().zip([40, 40, 4]) {
        let (given, nothing) = (figure["given"].as_u64().unwrap(), figure["nothing"].as_u64().unwrap());
        assert_eq!(given + nothing, wanted, "{figure}");
        assert_eq!(figure["latency"]["count"], wanted, "{figure}");
        assert!(given > 0, "{figure}");
    }
    assert_eq!(databases_left(&cluster).await, 0);
}

/// The devices of the bench are gone from an engine that goes on.
async fn a_running_engine(mode: FleetMode) {
    let world = start_world(mode).await;
    let url = world.fleet.url();
    people_add_up(&parse_report(&run_bench(&[&PEOPLE[..], &["--url", &url]].concat())), 1, &["generator"]);
    devices_add_up(&parse_report(&run_bench(&[&DEVICES[..], &["--url", &url]].concat())), 1, &["generator"]);
    assert_eq!(world.api.all_pages("/v1/devices").await, [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_people_on_running_embedded_engine() {
    a_running_engine(EMBEDDED).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_people_on_running_fleet() {
    a_running_engine(FLEET).await;
}

#[test]
fn invalid_people_bench_arguments_are_explained() {
    let refused = |arguments: &[&str], code: i32, said: &str| {
        let output = run_bench(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    };
    refused(&["people"], 2, "--embedded");
    refused(&["people", "--embedded", "--people", "0"], 2, "--people");
    refused(&["people", "--embedded", "--items", "0"], 2, "--items");
    refused(&["people", "--embedded", "--people", "2", "--overlap", "3"], 2, "--overlap");
    refused(&["people", "--embedded", "--line", "1000000"], 2, "--fleet N");
    refused(&["people", "--embedded", "--line", "1000000", "--items", "5"], 2, "cannot be used with");
    refused(&["people", "--embedded", "--for", "5s"], 2, "--line");
    refused(&["people", "--url", "http://127.0.0.1:1"], 4, "cannot be reached");
    refused(&["devices", "--embedded", "--devices", "3"], 2, "--devices");
    refused(&["devices", "--embedded", "--rate", "0"], 2, "--rate");
    refused(&["devices", "--embedded", "--for", "soon"], 2, "--for");
    refused(&["devices", "--embedded", "--connections", "0"], 2, "--connections");
    refused(&["devices", "--url", "http://127.0.0.1:1"], 4, "cannot be reached");
}

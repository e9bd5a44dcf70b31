//! Devices that crash, decline, are cut off and paused, over HTTP against real processes that are killed: no
//! run is lost, and no seat has two holders at once.
//!
//! Sequential: each test needs the whole machine.
#![allow(clippy::expect_used, reason = "a panic is how a test fails")]

use clap::Parser;
use millstream_devices::claim::RunInputKind;
use millstream_torture::devices::check::DeviceRule;
use millstream_torture::devices::options::DeviceTortureOptions;
use millstream_torture::devices::report::DeviceTortureReport;
use millstream_torture::devices::run::run;
use tokio::sync::Mutex;

static ALONE: Mutex<()> = Mutex::const_new(());

const DEVICES: usize = 20;
const RUNS: usize = 500;

async fn run_torture(runs: usize, seed: u64, further: &[&str]) -> DeviceTortureReport {
    let _alone = ALONE.lock().await;
    let (devices, runs) = (DEVICES.to_string(), runs.to_string());
    let binary = ["torture devices", "--binary", env!("CARGO_BIN_EXE_millstream")];
    let size = ["--devices", &devices, "--runs", &runs, "--at-once", "40", "--within", "120s"];
    let options = DeviceTortureOptions::parse_from(binary.iter().chain(&size).chain(further));
    let report = run(&options, seed).await;
    report.print();
    report
}

fn assert_report_holds(report: &DeviceTortureReport) {
    assert_eq!(report.findings, []);
    // A fault that did not occur proves nothing.
    let runs = report.evidence.runs.len();
    assert!(runs > RUNS / 3, "in two minutes only {runs} runs were created");
    assert!(report.completed_runs() > runs * 7 / 10, "only {} were completed", report.completed_runs());
    let (lost, refused) = (report.lost_by_reason(), report.refused_by_word());
    for how in ["timeout", "declined", "failed", "released", "heartbeat"] {
        assert!(lost.contains_key(how), "no seat was lost by {how}: {lost:?}");
    }
    for what in [RunInputKind::Complete, RunInputKind::SelfClaim, RunInputKind::Heartbeat] {
        assert!(refused.contains_key(what.as_str()), "no {what} was refused: {refused:?}");
    }
    for fault in ["crashed", "crashed and forgot", "cut off", "deaf", "left", "device paused", "run paused"] {
        let faults = &report.evidence.clients.faults;
        assert!(faults.contains_key(fault), "no device {fault}: {faults:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleet_loses_no_device_run() {
    let report = run_torture(RUNS, 1, &["--mode", "fleet"]).await;
    assert_report_holds(&report);
    assert!(report.evidence.clients.faults.contains_key("worker killed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_engine_loses_no_device_run() {
    let report = run_torture(RUNS, 2, &["--mode", "embedded"]).await;
    assert_report_holds(&report);
    assert!(report.evidence.clients.faults.contains_key("engine killed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_without_tokens_are_found() {
    let report = run_torture(RUNS, 3, &["--mode", "embedded", "--plant", "claim-without-token"]).await;
    assert!(report.caught_by().contains_key(&DeviceRule::Tokens), "{:?}", report.caught_by());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_monitor_is_found() {
    let plant = ["--mode", "embedded", "--plant", "no-run-monitor", "--patience", "5s"];
    let report = run_torture(100, 4, &plant).await;
    assert!(report.caught_by().contains_key(&DeviceRule::Ended), "{:?}", report.caught_by());
}

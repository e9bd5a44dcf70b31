//! A minute of faults without any loss, and planted bugs that the checks must find.
//!
//! Sequential: each test starts a fleet of its own and needs the whole machine.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what it saw, and a panic is how it fails"
)]

use std::collections::BTreeMap;

use clap::Parser;
use millstream_torture::check::Check;
use millstream_torture::neighbours;
use millstream_torture::neighbours::attack::Attack;
use millstream_torture::neighbours::options::NeighbourOptions;
use millstream_torture::options::Options;
use millstream_torture::report::Report;
use millstream_torture::run::run;
use tokio::sync::Mutex;

static ALONE: Mutex<()> = Mutex::const_new(());

async fn torture(arguments: &[&str]) -> Report {
    let _alone = ALONE.lock().await;
    let binary = ["torture", "--binary", env!("CARGO_BIN_EXE_millstream")];
    let options = Options::parse_from(binary.iter().chain(arguments));
    let kinds = options.kinds().expect("kinds that exist");
    let seed = options.seed.expect("a seed");
    let (report, _stage) = run(&options, &kinds, seed).await;
    report.print();
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_in_a_minute_of_faults() {
    let report = torture(&["--for", "60s", "--seed", "1"]).await;
    assert_eq!(report.violations, []);
    // A fault that was not injected, had no effect or met no load proves nothing.
    let bit = report.faults.iter().filter(|fault| fault.bite.is_ok()).count();
    assert!(bit >= 25, "only {bit} faults bit");
    assert!(report.accepted() >= 3_000, "only {} events were accepted", report.accepted());
    assert_eq!(report.recoveries.len(), 3);
}

/// Runs that may miss a planted bug: some bugs are races that a run of seconds can miss.
const SEEDS: [&str; 4] = ["1", "2", "3", "4"];

/// Plants a bug, injects the faults that reveal it, and expects these checks among those that find it.
async fn finds(bug: &str, faults: &str, length: &str, expected: &[Check], further: &[&str]) {
    let mut passed_by = Vec::new();
    for seed in SEEDS {
        let fixed = [
            "--plant",
            bug,
            "--only",
            faults,
            "--for",
            length,
            "--seed",
            seed,
            "--no-drills",
            "--patience",
            "1s",
        ];
        let report = torture(&[&fixed, further].concat()).await;
        let caught: BTreeMap<Check, usize> = report.caught_by();
        println!("{bug} is caught by {caught:?} with seed {seed}");
        if expected.iter().all(|check| caught.contains_key(check)) {
            return;
        }
        passed_by.push(caught);
    }
    panic!("{bug}: expected {expected:?}, found {passed_by:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_before_the_commit_is_found() {
    // The poison event is never counted: its doorbell is acknowledged before it kills.
    finds("ack-before-commit", "none", "8s", &[Check::Accepted], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_a_fence_is_found() {
    finds("no-fence", "worker-stop-mid-visit,doorbells-again,redis-flushall", "20s", &[Check::Once], &[])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_anybody_releases_is_found() {
    finds("lock-without-token", "lock-overrun", "8s", &[Check::Locks], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_overdue_sweep_is_found() {
    finds("no-overdue-sweep", "ingress-kill-unrung", "10s", &[Check::Accepted, Check::Quiet], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settling_without_a_lock_is_found() {
    // Few slots, so that the two actions of one event are performed by different workers.
    let slots = ["--set", "MILLSTREAM_WORKER__ACTION_SLOTS=1"];
    finds("settle-without-lock", "none", "15s", &[Check::Quiet], &slots).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_timer_that_is_applied_is_found() {
    finds("stale-timer", "none", "15s", &[Check::Timers], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_is_not_counted_is_found() {
    finds("attempt-not-counted", "none", "8s", &[Check::Accepted], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_under_an_old_token_is_found() {
    finds("any-token", "worker-stop", "20s", &[Check::Effects], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_tenant_costs_its_neighbour_nothing() {
    let _alone = ALONE.lock().await;
    // The default bounds are for an otherwise idle machine; here the latencies only have to be finite.
    let arguments = "--for 1s --burst 500 --rate 20 --seed 1 --accept-p99 20s --action-p99 30s --health 10s";
    let binary = ["torture", "--binary", env!("CARGO_BIN_EXE_millstream")];
    let options = NeighbourOptions::parse_from(binary.into_iter().chain(arguments.split(' ')));
    let report = neighbours::run::run(&options, 1).await;
    report.print();
    assert_eq!(report.findings, []);
    assert_eq!(report.figures.len(), Attack::ALL.len());
}

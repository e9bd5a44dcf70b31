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
use millstream_torture::check::TortureCheck;
use millstream_torture::neighbours;
use millstream_torture::neighbours::attack::NeighbourAttack;
use millstream_torture::neighbours::options::NeighbourOptions;
use millstream_torture::options::TortureOptions;
use millstream_torture::report::TortureReport;
use millstream_torture::run::run;
use tokio::sync::Mutex;

static ALONE: Mutex<()> = Mutex::const_new(());

async fn run_torture(arguments: &[&str]) -> TortureReport {
    let _alone = ALONE.lock().await;
    let binary = ["torture", "--binary", env!("CARGO_BIN_EXE_millstream")];
    let options = TortureOptions::parse_from(binary.iter().chain(arguments));
    let kinds = options.fault_kinds().expect("kinds that exist");
    let seed = options.seed.expect("a seed");
    let (report, _stage) = run(&options, &kinds, seed).await;
    report.print();
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn torture_minute_loses_nothing() {
    let report = run_torture(&["--for", "60s", "--seed", "1"]).await;
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
async fn assert_bug_found(
    bug: &str,
    faults: &str,
    length: &str,
    expected: &[TortureCheck],
    further: &[&str],
) {
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
        let report = run_torture(&[&fixed, further].concat()).await;
        let caught: BTreeMap<TortureCheck, usize> = report.caught_by();
        println!("{bug} is caught by {caught:?} with seed {seed}");
        if expected.iter().all(|check| caught.contains_key(check)) {
            return;
        }
        passed_by.push(caught);
    }
    panic!("{bug}: expected {expected:?}, found {passed_by:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ack_before_commit_is_found() {
    // The poison event is never counted: its doorbell is acknowledged before it kills.
    assert_bug_found("ack-before-commit", "none", "8s", &[TortureCheck::Accepted], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_without_fence_is_found() {
    assert_bug_found(
        "no-fence",
        "worker-stop-mid-visit,doorbells-again,redis-flushall",
        "20s",
        &[TortureCheck::Once],
        &[],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_released_by_others_is_found() {
    assert_bug_found("lock-without-token", "lock-overrun", "8s", &[TortureCheck::Locks], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_overdue_sweep_is_found() {
    assert_bug_found(
        "no-overdue-sweep",
        "ingress-kill-unrung",
        "10s",
        &[TortureCheck::Accepted, TortureCheck::Quiet],
        &[],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settling_without_a_lock_is_found() {
    // Few slots, so that the two actions of one event are performed by different workers.
    let slots = ["--set", "MILLSTREAM_WORKER__ACTION_SLOTS=1"];
    assert_bug_found("settle-without-lock", "none", "15s", &[TortureCheck::Quiet], &slots).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applied_stale_timer_is_found() {
    assert_bug_found("stale-timer", "none", "15s", &[TortureCheck::Timers], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uncounted_attempt_is_found() {
    assert_bug_found("attempt-not-counted", "none", "8s", &[TortureCheck::Accepted], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_under_old_token_is_found() {
    assert_bug_found("any-token", "worker-stop", "20s", &[TortureCheck::Effects], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_tenant_does_not_slow_neighbour() {
    let _alone = ALONE.lock().await;
    // The default bounds are for an otherwise idle machine; here the latencies only have to be finite.
    let arguments = "--for 1s --burst 500 --rate 20 --seed 1 --accept-p99 20s --action-p99 30s --health 10s";
    let binary = ["torture", "--binary", env!("CARGO_BIN_EXE_millstream")];
    let options = NeighbourOptions::parse_from(binary.into_iter().chain(arguments.split(' ')));
    let report = neighbours::run::run(&options, 1).await;
    report.print();
    assert_eq!(report.findings, []);
    assert_eq!(report.figures.len(), NeighbourAttack::ALL.len());
}

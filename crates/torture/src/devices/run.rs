//! One device torture, from the start of the processes to the verdict.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::check::{self, DeviceBounds, DeviceEvidence, DeviceFinding, DeviceRule};
use super::device::{self, SimulatedDevice, TorturePhase};
use super::engine::{MONITOR, TortureEngine};
use super::load::RunCreator;
use super::operator::{OpenWork, TortureOperator};
use super::options::DeviceTortureOptions;
use super::record::DeviceRecord;
use super::report::DeviceTortureReport;
use super::wire::DeviceWire;
use super::{collect, load_probe, plan};
use crate::chance::TortureRandom;

const CREATORS: usize = 4;
/// Error of the worker's estimate of the store's clock: bounded by the round trip to the store.
const CLOCK: Duration = Duration::from_millis(700);
/// Maximum client timeout.
const WRITE: Duration = Duration::from_secs(4);
/// A worker reports outcomes to executions asynchronously.
const SETTLING: Duration = Duration::from_secs(30);

fn as_millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

pub async fn run(options: &DeviceTortureOptions, seed: u64) -> DeviceTortureReport {
    let chance = TortureRandom::from_seed(seed);
    let engine = TortureEngine::start(options.mode, &options.binary, options.plant).await;
    let record = DeviceRecord::default();
    let wire = Arc::new(DeviceWire::to_ingresses(&engine.doors, 0, &record));
    apply_definition(&engine.doors[0]).await;

    let began = Instant::now();
    let (phase, phases) = watch::channel(TorturePhase::Wild);
    let (seen, mut looks) = watch::channel(OpenWork::default());
    let open = Arc::new(AtomicUsize::new(0));
    let mut everybody = JoinSet::new();
    let mut invitations = Vec::new();
    for number in 0..options.devices {
        let (sender, receiver) = mpsc::unbounded_channel();
        invitations.push(sender);
        let body = SimulatedDevice::new(number, &engine.doors, &record, phases.clone(), &chance);
        everybody.spawn(device::live_device(Arc::new(body), receiver));
    }
    let operator = TortureOperator {
        wire: DeviceWire::to_ingresses(&engine.doors, 1, &record),
        record: record.clone(),
        phase: phases.clone(),
        invitations: invitations.clone(),
        open: Arc::clone(&open),
        chance: chance.for_the("operator"),
    };
    everybody.spawn(operator.watch_runs(seen));
    everybody.spawn(load_probe::measure_load(engine.doors[0].clone(), record.clone()));

    let creator = RunCreator {
        wire: Arc::clone(&wire),
        record: record.clone(),
        seed: chance.clone(),
        next: Arc::default(),
        open,
        invitations,
        runs: options.runs,
        at_once: options.at_once,
        until: began + options.within,
    };
    let created = futures::future::join_all((0..CREATORS).map(|_| creator.clone().create_runs()));
    let killing = async {
        if !options.no_kills {
            engine.kill_now_and_then(&record, phases.clone(), chance.for_the("kills")).await;
        }
    };
    let creating = async {
        created.await;
        phase.send_replace(TorturePhase::Calm);
    };
    futures::future::join(creating, killing).await;
    let wild = began.elapsed();

    // Two looks, because the first may have been in progress.
    looks.mark_unchanged();
    let mut findings = Vec::new();
    for _ in 0..2 {
        let quiet = tokio::time::timeout(options.patience, looks.wait_for(|open| open.runs.is_empty())).await;
        if quiet.is_err() {
            let what = format!("runs were still open {:?} after the last fault", options.patience);
            findings.push(DeviceFinding::new_finding(DeviceRule::Ended, "the end", what));
            break;
        }
        drop(quiet);
        tokio::time::timeout(options.patience, looks.changed()).await.ok();
    }
    phase.send_replace(TorturePhase::Over);
    everybody.shutdown().await;
    let took = began.elapsed();

    let evidence = collect_evidence(options, &wire, &record, &mut findings).await;
    findings.extend(engine.died_alone().await);
    findings.extend(
        evidence
            .clients
            .odd
            .iter()
            .map(|odd| DeviceFinding::new_finding(DeviceRule::Processes, "a door", odd.clone())),
    );
    findings.extend(check::check_all(&evidence));
    let outputs = engine.outputs().await;
    findings.extend(
        outputs
            .lines()
            .filter(|line| line.contains("panicked at"))
            .map(|line| DeviceFinding::new_finding(DeviceRule::Processes, "a process", line)),
    );
    DeviceTortureReport {
        seed,
        mode: options.mode,
        devices: options.devices,
        wild,
        took,
        findings,
        evidence,
        outputs,
    }
}

/// Collects all evidence. Unreadable evidence is a finding itself.
async fn collect_evidence(
    options: &DeviceTortureOptions,
    wire: &DeviceWire,
    record: &DeviceRecord,
    findings: &mut Vec<DeviceFinding>,
) -> DeviceEvidence {
    let ids: Vec<String> = record.lock_state().executions.iter().cloned().collect();
    let until = Instant::now() + SETTLING;
    let executions = loop {
        match collect::collect_executions(wire, ids.clone()).await {
            Ok(all) if all.iter().all(|one| one.status == "completed") || Instant::now() > until => {
                break all;
            }
            Ok(_) => tokio::time::sleep(Duration::from_millis(500)).await,
            Err(error) => {
                findings.push(DeviceFinding::new_finding(DeviceRule::Settled, "executions", error));
                break Vec::new();
            }
        }
    };
    let runs = collect::collect_runs(wire).await.unwrap_or_else(|error| {
        findings.push(DeviceFinding::new_finding(DeviceRule::History, "runs", error));
        Vec::new()
    });
    let (monitor, allowance) = (as_millis(MONITOR), as_millis(options.allowance));
    let bounds = DeviceBounds { monitor, allowance, clock: as_millis(CLOCK), write: as_millis(WRITE) };
    let clients = record.lock_state().clone();
    DeviceEvidence { clients, runs, executions, bounds }
}

async fn apply_definition(door: &str) {
    let client = millstream_testkit::TestClient::new(door);
    let reply = client.post_raw("/v1/definitions", "application/yaml", plan::device_definition()).await;
    assert!(
        [200, 201].contains(&reply.status),
        "the definition was refused: {} {}",
        reply.status,
        reply.body
    );
}

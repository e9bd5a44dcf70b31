//! The processes under test, and the killing of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use millstream_model::mutation::Mutation;
use millstream_testkit::daemon::TestProcess;
use millstream_testkit::{TestFleet, eventually, port};
use tokio::sync::{Mutex, watch};

use super::check::{DeviceFinding, DeviceRule};
use super::device::TorturePhase;
use super::options::EngineMode;
use super::record::{DeviceRecord, unix_millis};
use crate::chance::TortureRandom;

/// Fixed interval of a worker's run monitor.
pub(super) const MONITOR: Duration = Duration::from_secs(1);
const READY: Duration = Duration::from_secs(60);
const WORKERS: usize = 2;

const SETTINGS: &[(&str, &str)] = &[
    ("MILLSTREAM_WORKER__LEASE", "2s"),
    ("MILLSTREAM_WORKER__LOCK_TTL", "1500ms"),
    ("MILLSTREAM_WORKER__RECLAIM_IDLE", "2s"),
    ("MILLSTREAM_WORKER__OVERDUE", "1s"),
    ("MILLSTREAM_LOG_FORMAT", "text"),
];

pub(super) struct TortureEngine {
    pub(super) doors: Vec<String>,
    parts: Mutex<EngineParts>,
    mode: EngineMode,
    binary: PathBuf,
}

struct EngineParts {
    // Dropped before the services that they use.
    second: Option<TestProcess>,
    /// Numbers of the running workers in the fleet.
    workers: Vec<usize>,
    fleet: TestFleet,
}

impl TortureEngine {
    pub(super) async fn start(mode: EngineMode, binary: &Path, plant: Option<Mutation>) -> Self {
        // Processes are started in directories of their own.
        let binary = &std::path::absolute(binary).expect("a path");
        let fleet = match mode {
            EngineMode::Fleet => millstream_testkit::FleetMode::Fleet { workers: WORKERS },
            EngineMode::Embedded => millstream_testkit::FleetMode::Embedded,
        };
        let planted = plant.map(|bug| ("MILLSTREAM_PLANT", bug.name()));
        let settings: Vec<_> = SETTINGS.iter().copied().chain(planted).collect();
        let fleet = TestFleet::start(fleet, binary, &settings).await;
        let mut doors = vec![fleet.url()];
        let workers = if mode == EngineMode::Fleet { (0..WORKERS).collect() } else { Vec::new() };
        let mut parts = EngineParts { second: None, workers, fleet };
        if mode == EngineMode::Fleet {
            let address = format!("127.0.0.1:{}", port::free_port());
            doors.push(format!("http://{address}"));
            parts.second = Some(second_door(&parts.fleet, binary, &address));
            until_ready(&doors[1]).await;
        }
        Self { doors, parts: Mutex::new(parts), mode, binary: binary.to_owned() }
    }

    /// Output of its processes, for diagnosis.
    pub(super) async fn outputs(&self) -> String {
        self.parts.lock().await.fleet.all_outputs()
    }

    /// Kills one process after another and restarts it, during the fault phase.
    pub(super) async fn kill_now_and_then(
        &self,
        record: &DeviceRecord,
        phase: watch::Receiver<TorturePhase>,
        mut chance: TortureRandom,
    ) {
        let mut over = phase.clone();
        loop {
            let quiet = Duration::from_millis(4_000 + chance.below(5_000));
            tokio::select! {
                () = tokio::time::sleep(quiet) => {}
                _ = over.wait_for(|phase| *phase != TorturePhase::Wild) => return,
            }
            self.kill_one(record, &mut chance).await;
        }
    }

    async fn kill_one(&self, record: &DeviceRecord, chance: &mut TortureRandom) {
        let mut parts = self.parts.lock().await;
        match (self.mode, chance.below(100)) {
            (EngineMode::Embedded, _) => {
                record.record_fault("engine killed");
                let from = unix_millis();
                parts.fleet.kill_ingress();
                parts.fleet.start_ingress(&[]).await;
                record.lock_state().outages.push((from, unix_millis()));
            }
            (EngineMode::Fleet, 0..50) => {
                record.record_fault("worker killed");
                let at = chance.index(parts.workers.len());
                let worker = parts.workers.remove(at);
                parts.fleet.kill_worker(worker);
                let next = parts.fleet.start_worker(&[]);
                parts.workers.push(next);
            }
            (EngineMode::Fleet, 50..75) => {
                record.record_fault("door killed");
                parts.fleet.kill_ingress();
                parts.fleet.start_ingress(&[]).await;
            }
            (EngineMode::Fleet, _) => {
                record.record_fault("door killed");
                let address = self.doors[1].trim_start_matches("http://").to_owned();
                parts.second = None;
                parts.second = Some(second_door(&parts.fleet, &self.binary, &address));
                drop(parts);
                until_ready(&self.doors[1]).await;
            }
        }
    }

    /// Processes that ended on their own.
    pub(super) async fn died_alone(&self) -> Vec<DeviceFinding> {
        let mut parts = self.parts.lock().await;
        let EngineParts { second, workers, fleet } = &mut *parts;
        let mut found = Vec::new();
        let mut look = |daemon: &mut TestProcess| {
            if let Some(status) = daemon.exit_status() {
                let what = format!("ended with {status}: {}", daemon.output_text());
                found.push(DeviceFinding::new_finding(DeviceRule::Processes, daemon.name(), what));
            }
        };
        look(fleet.ingress());
        for worker in workers.iter() {
            look(fleet.worker(*worker));
        }
        second.iter_mut().for_each(look);
        found
    }
}

fn second_door(fleet: &TestFleet, binary: &Path, address: &str) -> TestProcess {
    fleet.start_other("second-door", binary, &["ingress", "--listen", address], &[])
}

async fn until_ready(door: &str) {
    let client = millstream_testkit::TestClient::new(door);
    eventually(READY, || {
        let request = client.request(reqwest::Method::GET, "/readyz");
        async move {
            let answer = request.send().await.map_err(|error| error.to_string())?;
            if answer.status().is_success() { Ok(()) } else { Err(answer.status().to_string()) }
        }
    })
    .await;
}

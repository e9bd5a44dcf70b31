//! The processes under test, and the killing of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use millstream_core::planted::Bug;
use millstream_testkit::daemon::Daemon;
use millstream_testkit::{Fleet, eventually, port};
use tokio::sync::{Mutex, watch};

use super::check::{Finding, Rule};
use super::device::Phase;
use super::options::Mode;
use super::record::{Record, now};
use crate::chance::Chance;

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

pub(super) struct Engine {
    pub(super) doors: Vec<String>,
    parts: Mutex<Parts>,
    mode: Mode,
    binary: PathBuf,
}

struct Parts {
    // Dropped before the services that they use.
    second: Option<Daemon>,
    /// Numbers of the running workers in the fleet.
    workers: Vec<usize>,
    fleet: Fleet,
}

impl Engine {
    pub(super) async fn start(mode: Mode, binary: &Path, plant: Option<Bug>) -> Self {
        // Processes are started in directories of their own.
        let binary = &std::path::absolute(binary).expect("a path");
        let fleet = match mode {
            Mode::Fleet => millstream_testkit::Mode::Fleet { workers: WORKERS },
            Mode::Embedded => millstream_testkit::Mode::Embedded,
        };
        let planted = plant.map(|bug| ("MILLSTREAM_PLANT", bug.name()));
        let settings: Vec<_> = SETTINGS.iter().copied().chain(planted).collect();
        let fleet = Fleet::start(fleet, binary, &settings).await;
        let mut doors = vec![fleet.url()];
        let workers = if mode == Mode::Fleet { (0..WORKERS).collect() } else { Vec::new() };
        let mut parts = Parts { second: None, workers, fleet };
        if mode == Mode::Fleet {
            let address = format!("127.0.0.1:{}", port::free());
            doors.push(format!("http://{address}"));
            parts.second = Some(second_door(&parts.fleet, binary, &address));
            until_ready(&doors[1]).await;
        }
        Self { doors, parts: Mutex::new(parts), mode, binary: binary.to_owned() }
    }

    /// Output of its processes, for diagnosis.
    pub(super) async fn outputs(&self) -> String {
        self.parts.lock().await.fleet.outputs()
    }

    /// Kills one process after another and restarts it, during the fault phase.
    pub(super) async fn kill_now_and_then(
        &self,
        record: &Record,
        phase: watch::Receiver<Phase>,
        mut chance: Chance,
    ) {
        let mut over = phase.clone();
        loop {
            let quiet = Duration::from_millis(4_000 + chance.below(5_000));
            tokio::select! {
                () = tokio::time::sleep(quiet) => {}
                _ = over.wait_for(|phase| *phase != Phase::Wild) => return,
            }
            self.kill_one(record, &mut chance).await;
        }
    }

    async fn kill_one(&self, record: &Record, chance: &mut Chance) {
        let mut parts = self.parts.lock().await;
        match (self.mode, chance.below(100)) {
            (Mode::Embedded, _) => {
                record.fault("engine killed");
                let from = now();
                parts.fleet.kill_ingress();
                parts.fleet.start_ingress(&[]).await;
                record.write().outages.push((from, now()));
            }
            (Mode::Fleet, 0..50) => {
                record.fault("worker killed");
                let at = chance.index(parts.workers.len());
                let worker = parts.workers.remove(at);
                parts.fleet.kill_worker(worker);
                let next = parts.fleet.start_worker(&[]);
                parts.workers.push(next);
            }
            (Mode::Fleet, 50..75) => {
                record.fault("door killed");
                parts.fleet.kill_ingress();
                parts.fleet.start_ingress(&[]).await;
            }
            (Mode::Fleet, _) => {
                record.fault("door killed");
                let address = self.doors[1].trim_start_matches("http://").to_owned();
                parts.second = None;
                parts.second = Some(second_door(&parts.fleet, &self.binary, &address));
                drop(parts);
                until_ready(&self.doors[1]).await;
            }
        }
    }

    /// Processes that ended on their own.
    pub(super) async fn died_alone(&self) -> Vec<Finding> {
        let mut parts = self.parts.lock().await;
        let Parts { second, workers, fleet } = &mut *parts;
        let mut found = Vec::new();
        let mut look = |daemon: &mut Daemon| {
            if let Some(status) = daemon.exited() {
                let what = format!("ended with {status}: {}", daemon.output());
                found.push(Finding::of(Rule::Processes, daemon.name(), what));
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

fn second_door(fleet: &Fleet, binary: &Path, address: &str) -> Daemon {
    fleet.start_other("second-door", binary, &["ingress", "--listen", address], &[])
}

async fn until_ready(door: &str) {
    let client = millstream_testkit::Client::new(door);
    eventually(READY, || {
        let request = client.request(reqwest::Method::GET, "/readyz");
        async move {
            let answer = request.send().await.map_err(|error| error.to_string())?;
            if answer.status().is_success() { Ok(()) } else { Err(answer.status().to_string()) }
        }
    })
    .await;
}

//! The fleet under test with its keys, the memory of its processes, and injected faults.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_testkit::client::send_request;
use millstream_testkit::daemon::TestProcess;
use millstream_testkit::fleet::FleetPostgres;
use millstream_testkit::redis::connect_patiently;
use millstream_testkit::{FleetMode, TestClient, TestFleet, eventually};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::rows::FleetRows;
use super::settle::usage_by_name;
use super::settled::UsedQuota;
use crate::chance::TortureRandom;

/// Maximum time until changed quotas apply, on a busy machine.
const IN_FORCE: Duration = Duration::from_secs(30);

/// The tenants; the key of each has its name.
pub(super) const HONEST: &str = "honest";
pub(super) const HOSTILE: &str = "hostile";

/// Keys of the tenants.
#[derive(Debug, Clone)]
pub(super) struct TenantKeys {
    pub(super) honest: String,
    pub(super) hostile: String,
    /// Reads `/metrics`.
    pub(super) operator: String,
}

pub(super) struct FleetUnderTest {
    pub(super) url: String,
    pub(super) keys: TenantKeys,
    /// Shared by all attackers: a client is expensive to make.
    pub(super) hostile: TestClient,
    operator: TestClient,
    /// Counter for the definitions that probe whether quotas apply.
    canaries: AtomicU64,
    fleet: Mutex<TestFleet>,
    /// Numbers of the workers that should be running.
    workers: Mutex<Vec<usize>>,
    /// The largest resident memory seen, in KiB, by process.
    peaks: Mutex<BTreeMap<String, u64>>,
}

impl FleetUnderTest {
    pub(super) async fn start(binary: &Path, workers: usize) -> Self {
        let binary = std::path::absolute(binary).expect("a path");
        let settings = [("MILLSTREAM_LOG_FORMAT", "text")];
        let mode = FleetMode::Fleet { workers };
        let fleet = TestFleet::start_on(mode, FleetPostgres::Own, &binary, &settings).await;
        let keys = TenantKeys {
            honest: create_key(&fleet, HONEST, &["--tenant", HONEST, "--role", "admin"]),
            hostile: create_key(&fleet, HOSTILE, &["--tenant", HOSTILE, "--role", "admin"]),
            operator: create_key(&fleet, "operator", &["--role", "operator"]),
        };
        await_closed(&TestClient::new(&fleet.url())).await;
        Self {
            url: fleet.url(),
            hostile: TestClient::new(&fleet.url()).with_key(&keys.hostile),
            operator: TestClient::new(&fleet.url()).with_key(&keys.operator),
            keys,
            canaries: AtomicU64::new(0),
            fleet: Mutex::new(fleet),
            workers: Mutex::new((0..workers).collect()),
            peaks: Mutex::default(),
        }
    }

    pub(super) fn honest_client(&self) -> TestClient {
        TestClient::new(&self.url).with_key(&self.keys.honest)
    }

    /// Host and port of the ingress.
    pub(super) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Records the memory of every process. A process that has ended is a finding, returned by name.
    pub(super) async fn observe_processes(&self) -> Vec<String> {
        let mut fleet = self.fleet.lock().await;
        let mut peaks = self.peaks.lock().await;
        let mut ended = Vec::new();
        let mut observe = |daemon: &mut TestProcess| match daemon.exit_status() {
            Some(status) => {
                ended.push(format!("{} ended with {status}: {}", daemon.name(), daemon.output_text()))
            }
            None => {
                let peak = peaks.entry(daemon.name().to_owned()).or_default();
                *peak = (*peak).max(peak_memory_kib(daemon.pid()));
            }
        };
        observe(fleet.ingress());
        for worker in self.workers.lock().await.iter() {
            observe(fleet.worker(*worker));
        }
        ended
    }

    pub(super) async fn memory_peaks_kib(&self) -> BTreeMap<String, u64> {
        self.peaks.lock().await.clone()
    }

    pub(super) async fn outputs(&self) -> String {
        self.fleet.lock().await.all_outputs()
    }

    /// Kills one worker with SIGKILL and starts another in its place.
    pub(super) async fn replace_worker(&self, chance: &mut TortureRandom) {
        let mut fleet = self.fleet.lock().await;
        let mut workers = self.workers.lock().await;
        let at = chance.index(workers.len());
        fleet.kill_worker(workers[at]);
        workers[at] = fleet.start_worker(&[]);
    }

    /// Deletes everything in Redis.
    pub(super) async fn empty_redis(&self) {
        let _: () =
            redis::cmd("FLUSHALL").query_async(&mut self.redis_connection().await).await.expect("FLUSHALL");
    }

    /// Deletes one randomly drawn key of Redis. Returns its name.
    pub(super) async fn delete_redis_key(&self, chance: &mut TortureRandom) -> Option<String> {
        let mut connection = self.redis_connection().await;
        let mut keys: Vec<String> =
            redis::cmd("KEYS").arg("*").query_async(&mut connection).await.expect("KEYS");
        keys.sort_unstable();
        let key = (!keys.is_empty()).then(|| chance.pick(&keys).clone())?;
        let _: () = redis::cmd("DEL").arg(&key).query_async(&mut connection).await.expect("DEL");
        Some(key)
    }

    pub(super) async fn fleet_rows(&self) -> FleetRows {
        let url = self.fleet.lock().await.postgres().database_url("millstream");
        FleetRows::connect(&url).await
    }

    /// Replaces the quotas of the hostile tenant, and waits until they apply: then it may store one more
    /// definition, and no further one.
    pub(super) async fn enforce_hostile_quota(&self, mut quota: Value) {
        let stored = self.fleet_rows().await.used_quotas(HOSTILE).await["definitions"];
        quota["definitions"] = (stored + 1).into();
        self.put_hostile_quota(&quota).await;
        self.until_definitions_answer(201).await;
        self.until_definitions_answer(403).await;
    }

    /// Removes all quotas of the hostile tenant, and waits until that applies.
    pub(super) async fn lift_hostile_quota(&self) {
        self.put_hostile_quota(&Value::Object(serde_json::Map::new())).await;
        self.until_definitions_answer(201).await;
    }

    async fn put_hostile_quota(&self, quota: &Value) {
        let path = format!("/v1/tenants/{HOSTILE}/quota");
        send_request(self.operator.request(Method::PUT, &path).json(quota)).await.expect_status(200);
    }

    /// Stores one definition after another until the answer has this status.
    async fn until_definitions_answer(&self, status: u16) {
        eventually(IN_FORCE, || async {
            let name = format!("canary-{}", self.canaries.fetch_add(1, Ordering::Relaxed));
            let states = json!({ "open": { "on": { "go": {} } } });
            let definition = json!({ "name": name, "initial": "open", "states": states });
            let answer = self.hostile.post("/v1/definitions", &definition).await;
            if answer.status == status { Ok(()) } else { Err(answer) }
        })
        .await;
    }

    /// Usage of a tenant counted by rows, according to the API.
    pub(super) async fn quota_usage(&self, tenant: &str) -> BTreeMap<String, UsedQuota> {
        usage_by_name(&self.operator.get(&format!("/v1/tenants/{tenant}/usage")).await.expect_status(200))
    }

    pub(super) async fn redis_connection(&self) -> redis::aio::MultiplexedConnection {
        let url = self.fleet.lock().await.redis().url.clone();
        let client = redis::Client::open(url).expect("an address of Redis");
        connect_patiently(&client).await.expect("connect to Redis")
    }
}

/// Returns when a call without a key is refused: an ingress caches the absence of keys for a second.
async fn await_closed(anonymous: &TestClient) {
    let refused = async {
        while anonymous.get("/v1/definitions").await.status != 401 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), refused).await.expect("a call without a key is refused");
}

fn create_key(fleet: &TestFleet, name: &str, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        fleet.run_cli(["keys", "create", name, "--json"].iter().chain(arguments));
    let problem = || String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success(), "keys create failed: {}", problem());
    let created: Value = serde_json::from_slice(&stdout).expect("the key as JSON");
    created["key"].as_str().expect("a key").to_owned()
}

/// Peak resident memory of a process, from the kernel. 0 where it cannot be read.
fn peak_memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}

//! Postgres on a separate disk, Redis with a separate file, and the processes that use them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millstream_testkit::postgres::{self, TestCluster};
use millstream_testkit::redis::{self as private_redis, RedisMemoryPolicy, TestRedis, connect_patiently};
use millstream_testkit::{TestProxy, eventually, guard, port};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tokio::sync::{Mutex, RwLock};

use super::disk::TestDisk;
use super::process::{ProcessParts, StageProcess, StageRole, bare_command};
use super::settings::{self, JUMP, POISON, RecoveryDeadlines};
use crate::options::{TortureOptions, obeys_drills};
use crate::sink::TortureSink;

const DATABASE: &str = "millstream";
const READY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct TortureStage {
    pub deadlines: RecoveryDeadlines,
    /// Whether the processes support fault injection (debug assertions): poison, clock jumps, planted bugs.
    pub drills: bool,
    pub workers: Vec<StageProcess>,
    pub ingresses: Vec<StageProcess>,
    pub sink: TortureSink,
    /// Between the workers and the target of their actions.
    pub sink_network: TestProxy,
    /// Read-locked by faults; write-locked by a fault that must be alone.
    pub alone: RwLock<()>,
    pub redis_url: String,
    pub postgres_url: String,
    pub redis: Mutex<TestRedis>,
    pub postgres: Mutex<TestCluster>,
    pub http: reqwest::Client,
    binary: PathBuf,
    /// Unmounted after the services on it have ended.
    pub disk: TestDisk,
    pub directory: TempDir,
}

impl TortureStage {
    /// Starts everything and waits until it is ready.
    pub async fn start(options: &TortureOptions) -> Arc<Self> {
        let directory =
            tempfile::Builder::new().prefix("millstream-torture-").tempdir_in("/tmp").expect("a directory");
        guard::watch_directory(directory.path());
        make_reachable(directory.path());
        let disk = TestDisk::mount_at(&directory.path().join("disk"));
        make_reachable(disk.directory());
        let settings = [
            "shared_buffers=128MB",
            "max_wal_size=128MB",
            "min_wal_size=32MB",
            "wal_level=minimal",
            "max_wal_senders=0",
        ];
        // Not on the disk that is filled up.
        let log = directory.path().join("postgres.log");
        let cluster = postgres::cluster_in(disk.directory(), &settings, Some(&log)).await;
        let postgres_url = cluster.create_database(DATABASE).await;
        let redis = private_redis::server_with(RedisMemoryPolicy::AppendOnlyFile).await;
        let sink = TortureSink::start().await;
        let sink_network = TestProxy::forward_to(sink.address()).await;
        let drills = obeys_drills(&options.binary);
        let mut stage = Self {
            deadlines: RecoveryDeadlines::for_times(options.times),
            drills,
            workers: Vec::new(),
            ingresses: Vec::new(),
            sink,
            sink_network,
            alone: RwLock::new(()),
            redis_url: redis.url.clone(),
            postgres_url,
            redis: Mutex::new(redis),
            postgres: Mutex::new(cluster),
            http: http_client(),
            binary: options.binary.clone(),
            disk,
            directory,
        };
        stage.migrate();
        for number in 0..options.workers {
            let process = stage.process(StageRole::Worker, number, options).await;
            stage.workers.push(process);
        }
        for number in 0..options.ingresses {
            let process = stage.process(StageRole::Ingress, number, options).await;
            stage.ingresses.push(process);
        }
        for process in stage.processes() {
            process.start();
        }
        for ingress in &stage.ingresses {
            stage.until_ready(ingress).await;
        }
        Arc::new(stage)
    }

    pub fn processes(&self) -> impl Iterator<Item = &StageProcess> {
        self.workers.iter().chain(&self.ingresses)
    }

    /// URL of an ingress for clients, by number.
    pub fn ingress_url(&self, number: usize) -> String {
        let ingress = &self.ingresses[number % self.ingresses.len()];
        let address = ingress
            .front
            .as_ref()
            .map_or(SocketAddr::from(([127, 0, 0, 1], ingress.port)), TestProxy::address);
        format!("http://{address}")
    }

    /// URL of the action target for the workers.
    pub fn target_url(&self) -> String {
        format!("http://{}", self.sink_network.address())
    }

    /// Whether it reports that it is ready, on its own port.
    pub async fn is_ready(&self, process: &StageProcess) -> bool {
        let url = format!("http://127.0.0.1:{}/readyz", process.port);
        let answer = self.http.get(url).timeout(Duration::from_secs(2)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    pub async fn until_ready(&self, process: &StageProcess) {
        eventually(READY, || async {
            if self.is_ready(process).await { Ok(()) } else { Err(format!("{} is not ready", process.name)) }
        })
        .await;
    }

    /// A direct connection to Postgres, without proxy.
    pub async fn connect_postgres(&self) -> Result<PgConnection, sqlx::Error> {
        PgConnection::connect(&self.postgres_url).await
    }

    /// A direct connection to Redis, without proxy.
    pub async fn redis_connection(&self) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
        connect_patiently(&redis::Client::open(self.redis_url.as_str())?).await
    }

    /// The binary with the fleet's settings, without proxies.
    pub fn command(&self) -> std::process::Command {
        let mut command = bare_command(&self.binary);
        command
            .env("MILLSTREAM_DATABASE_URL", &self.postgres_url)
            .env("MILLSTREAM_REDIS_URL", &self.redis_url);
        command
    }

    fn migrate(&self) {
        let migrated = self.command().arg("migrate").output().expect("run the binary");
        assert!(migrated.status.success(), "migrate failed: {}", String::from_utf8_lossy(&migrated.stderr));
    }

    async fn process(&self, role: StageRole, number: usize, options: &TortureOptions) -> StageProcess {
        let name = match role {
            StageRole::Worker => format!("worker-{number}"),
            StageRole::Ingress => format!("ingress-{number}"),
        };
        let port = port::free_port();
        let loopback = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let postgres = TestProxy::forward_to(loopback(self.postgres.lock().await.port())).await;
        let redis = TestProxy::forward_to(loopback(self.redis.lock().await.port())).await;
        let front = match role {
            StageRole::Worker => None,
            StageRole::Ingress => Some(TestProxy::forward_to(loopback(port)).await),
        };
        let mut environment = settings::environment_variables(options.times);
        let mut set = |name: &str, value: String| environment.push((name.to_owned(), value));
        set("MILLSTREAM_DATABASE_URL", format!("postgres://postgres@{}/{DATABASE}", postgres.address()));
        set("MILLSTREAM_REDIS_URL", format!("redis://{}/", redis.address()));
        set("MILLSTREAM_HTTP_ALLOW", "127.0.0.0/8".to_owned());
        set("MILLSTREAM_EXECUTOR_ALLOW", "127.0.0.0/8".to_owned());
        if role == StageRole::Worker {
            set("MILLSTREAM_WORKER__LISTEN", format!("127.0.0.1:{port}"));
            if self.drills {
                set("MILLSTREAM_CRASH_ON", POISON.to_owned());
                set("MILLSTREAM_CLOCK_JUMP", format!("{}ms", JUMP.as_millis()));
            }
        }
        if let Some(bug) = options.plant {
            set("MILLSTREAM_PLANT", bug.name().to_owned());
        }
        environment.extend(options.set.iter().cloned());
        let output = self.directory.path().join(format!("{name}.log"));
        let binary = self.binary.clone();
        StageProcess::new(ProcessParts {
            name,
            role,
            postgres,
            redis,
            front,
            port,
            output,
            environment,
            binary,
        })
    }
}

impl Drop for TortureStage {
    fn drop(&mut self) {
        guard::forget_directory(self.directory.path());
    }
}

fn http_client() -> reqwest::Client {
    millstream_testkit::client::install_crypto();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("an HTTP client")
}

/// The server's user must be able to pass through.
fn make_reachable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o711)).expect("set permissions");
}

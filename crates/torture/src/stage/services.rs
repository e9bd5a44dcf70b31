//! Postgres on a separate disk, Redis with a separate file, and the processes that use them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millstream_testkit::postgres::{self, TestCluster};
use millstream_testkit::redis::{self as private_redis, Memory, TestRedis};
use millstream_testkit::{Proxy, eventually, guard, port};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tokio::sync::{Mutex, RwLock};

use super::disk::Disk;
use super::process::{Parts, Process, Role, bare};
use super::settings::{self, Deadlines, JUMP, POISON};
use crate::options::{Options, obeys_drills};
use crate::sink::Sink;

const DATABASE: &str = "millstream";
const READY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Stage {
    pub deadlines: Deadlines,
    /// Whether the processes support fault injection (debug assertions): poison, clock jumps, planted bugs.
    pub drills: bool,
    pub workers: Vec<Process>,
    pub ingresses: Vec<Process>,
    pub sink: Sink,
    /// Between the workers and the target of their actions.
    pub sink_network: Proxy,
    /// Read-locked by faults; write-locked by a fault that must be alone.
    pub alone: RwLock<()>,
    pub redis_url: String,
    pub postgres_url: String,
    pub redis: Mutex<TestRedis>,
    pub postgres: Mutex<TestCluster>,
    pub http: reqwest::Client,
    binary: PathBuf,
    /// Unmounted after the services on it have ended.
    pub disk: Disk,
    pub directory: TempDir,
}

impl Stage {
    /// Starts everything and waits until it is ready.
    pub async fn start(options: &Options) -> Arc<Self> {
        let directory =
            tempfile::Builder::new().prefix("millstream-torture-").tempdir_in("/tmp").expect("a directory");
        guard::watch_directory(directory.path());
        make_reachable(directory.path());
        let disk = Disk::mount_at(&directory.path().join("disk"));
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
        let redis = private_redis::server_with(Memory::AppendOnlyFile).await;
        let sink = Sink::start().await;
        let sink_network = Proxy::to(sink.address()).await;
        let drills = obeys_drills(&options.binary);
        let mut stage = Self {
            deadlines: Deadlines::of(options.times),
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
            http: client(),
            binary: options.binary.clone(),
            disk,
            directory,
        };
        stage.migrate();
        for number in 0..options.workers {
            let process = stage.process(Role::Worker, number, options).await;
            stage.workers.push(process);
        }
        for number in 0..options.ingresses {
            let process = stage.process(Role::Ingress, number, options).await;
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

    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.workers.iter().chain(&self.ingresses)
    }

    /// URL of an ingress for clients, by number.
    pub fn door(&self, number: usize) -> String {
        let ingress = &self.ingresses[number % self.ingresses.len()];
        let address =
            ingress.front.as_ref().map_or(SocketAddr::from(([127, 0, 0, 1], ingress.port)), Proxy::address);
        format!("http://{address}")
    }

    /// URL of the action target for the workers.
    pub fn target(&self) -> String {
        format!("http://{}", self.sink_network.address())
    }

    /// Whether it reports that it is ready, on its own port.
    pub async fn is_ready(&self, process: &Process) -> bool {
        let url = format!("http://127.0.0.1:{}/readyz", process.port);
        let answer = self.http.get(url).timeout(Duration::from_secs(2)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    pub async fn until_ready(&self, process: &Process) {
        eventually(READY, || async {
            if self.is_ready(process).await { Ok(()) } else { Err(format!("{} is not ready", process.name)) }
        })
        .await;
    }

    /// A direct connection to Postgres, without proxy.
    pub async fn sql(&self) -> Result<PgConnection, sqlx::Error> {
        PgConnection::connect(&self.postgres_url).await
    }

    /// A direct connection to Redis, without proxy.
    pub async fn redis_connection(&self) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
        redis::Client::open(self.redis_url.as_str())?.get_multiplexed_async_connection().await
    }

    /// The binary with the fleet's settings, without proxies.
    pub fn command(&self) -> std::process::Command {
        let mut command = bare(&self.binary);
        command
            .env("MILLSTREAM_DATABASE_URL", &self.postgres_url)
            .env("MILLSTREAM_REDIS_URL", &self.redis_url);
        command
    }

    fn migrate(&self) {
        let migrated = self.command().arg("migrate").output().expect("run the binary");
        assert!(migrated.status.success(), "migrate failed: {}", String::from_utf8_lossy(&migrated.stderr));
    }

    async fn process(&self, role: Role, number: usize, options: &Options) -> Process {
        let name = match role {
            Role::Worker => format!("worker-{number}"),
            Role::Ingress => format!("ingress-{number}"),
        };
        let port = port::free();
        let loopback = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let postgres = Proxy::to(loopback(self.postgres.lock().await.port())).await;
        let redis = Proxy::to(loopback(self.redis.lock().await.port())).await;
        let front = match role {
            Role::Worker => None,
            Role::Ingress => Some(Proxy::to(loopback(port)).await),
        };
        let mut environment = settings::environment(options.times);
        let mut set = |name: &str, value: String| environment.push((name.to_owned(), value));
        set("MILLSTREAM_DATABASE_URL", format!("postgres://postgres@{}/{DATABASE}", postgres.address()));
        set("MILLSTREAM_REDIS_URL", format!("redis://{}/", redis.address()));
        set("MILLSTREAM_HTTP_ALLOW", "127.0.0.0/8".to_owned());
        set("MILLSTREAM_EXECUTOR_ALLOW", "127.0.0.0/8".to_owned());
        if role == Role::Worker {
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
        Process::new(Parts { name, role, postgres, redis, front, port, output, environment, binary })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        guard::forget_directory(self.directory.path());
    }
}

fn client() -> reqwest::Client {
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

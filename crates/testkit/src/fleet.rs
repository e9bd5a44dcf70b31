//! The real binary, running: embedded in one process, or as an ingress and workers with their own
//! database and Redis.
//!
//! A test chooses a [`FleetMode`] and uses HTTP. It may kill, stop and start each process by name; a process
//! started with a crash point dies by itself and can be awaited. Nothing here knows what the engine does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::Method;
use tempfile::TempDir;

use crate::client::{TestClient, try_send};
use crate::daemon::TestProcess;
use crate::eventually::eventually;
use crate::guard::{self, ProcessEnding};
use crate::port;
use crate::postgres::{self, TestCluster, TestDatabase};
use crate::redis::{self, TestRedis};
use crate::sqlite;

const READY: Duration = Duration::from_secs(30);
/// The engine's own drain deadline is 25 s; a process that needs longer has failed.
const DRAINED: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetMode {
    /// `millstream dev`: one process, SQLite, no services.
    Embedded,
    /// An ingress and `workers` workers on Postgres and Redis.
    Fleet { workers: usize },
}

/// Settings for processes, as environment variables.
pub type FleetEnv<'a> = &'a [(&'a str, &'a str)];

#[derive(Debug)]
pub struct TestFleet {
    mode: FleetMode,
    binary: PathBuf,
    env: Vec<(String, String)>,
    port: u16,
    // Fields are dropped in this order: processes, services, and last the directory with the outputs.
    ingress: Option<TestProcess>,
    workers: Vec<TestProcess>,
    redis: Option<TestRedis>,
    database: Option<FleetDatabase>,
    directory: TempDir,
}

#[derive(Debug)]
enum FleetDatabase {
    Shared(TestDatabase),
    Own(TestCluster),
}

/// Whether the fleet's Postgres is a database on the shared cluster, or a cluster that may be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetPostgres {
    Shared,
    Own,
}

impl TestFleet {
    /// Starts everything and waits until it is ready. `env` goes to every process.
    pub async fn start(mode: FleetMode, binary: impl AsRef<Path>, env: FleetEnv<'_>) -> Self {
        Self::start_on(mode, FleetPostgres::Shared, binary, env).await
    }

    /// One process of a user-written worker binary, which is the whole engine when no settings are given.
    pub async fn start_own(engine: impl AsRef<Path>, env: FleetEnv<'_>) -> Self {
        let mut fleet = Self::prepare_fleet(FleetMode::Embedded, engine.as_ref(), env);
        let mut command = fleet.command(&[]);
        command.env("MILLSTREAM_LISTEN", format!("127.0.0.1:{}", fleet.port));
        command.env("MILLSTREAM_DEV__DIR", fleet.data_directory());
        command.env_remove("MILLSTREAM_DATABASE_URL");
        fleet.ingress =
            Some(TestProcess::start("engine", command, &fleet.output_path("engine"), ProcessEnding::Kill));
        fleet.wait_ready().await;
        fleet
    }

    pub async fn start_on(
        mode: FleetMode,
        postgres: FleetPostgres,
        binary: impl AsRef<Path>,
        env: FleetEnv<'_>,
    ) -> Self {
        let mut fleet = Self::prepare_fleet(mode, binary.as_ref(), env);
        if let FleetMode::Fleet { workers } = mode {
            fleet.redis = Some(redis::private_redis().await);
            fleet.database = Some(match postgres {
                FleetPostgres::Shared => FleetDatabase::Shared(postgres::private_database().await),
                FleetPostgres::Own => {
                    let cluster = postgres::private_cluster().await;
                    cluster.create_database("millstream").await;
                    FleetDatabase::Own(cluster)
                }
            });
            let migrated = fleet.run_cli(["migrate"]);
            assert!(migrated.status.success(), "migrate failed: {migrated:?}");
            for _ in 0..workers {
                fleet.start_worker(&[]);
            }
        }
        fleet.start_ingress(&[]).await;
        fleet
    }

    fn prepare_fleet(mode: FleetMode, binary: &Path, env: FleetEnv<'_>) -> Self {
        let directory =
            tempfile::Builder::new().prefix("millstream-fleet-").tempdir().expect("make a directory");
        guard::watch_directory(directory.path());
        Self {
            mode,
            binary: binary.into(),
            env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            port: port::free_port(),
            directory,
            ingress: None,
            workers: Vec::new(),
            redis: None,
            database: None,
        }
    }

    pub fn mode(&self) -> FleetMode {
        self.mode
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn client(&self) -> TestClient {
        TestClient::new(&self.url())
    }

    /// Where `dev` keeps its database, and where this fleet's output files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The private Redis of a fleet.
    pub fn redis(&mut self) -> &mut TestRedis {
        self.redis.as_mut().expect("only a fleet has Redis")
    }

    /// The private cluster of a fleet that was started with [`FleetPostgres::Own`].
    pub fn postgres(&mut self) -> &mut TestCluster {
        match &mut self.database {
            Some(FleetDatabase::Own(cluster)) => cluster,
            Some(FleetDatabase::Shared(_)) | None => panic!("this fleet has no cluster of its own"),
        }
    }

    /// Starts the front process: the ingress of a fleet, or the whole embedded engine.
    pub async fn start_ingress(&mut self, env: FleetEnv<'_>) {
        self.launch_ingress(env);
        self.wait_ready().await;
    }

    /// The same without waiting, for processes that are expected to fail.
    pub fn launch_ingress(&mut self, env: FleetEnv<'_>) {
        let mut command = self.command(env);
        match self.mode {
            FleetMode::Embedded => command.arg("dev").arg("--dir").arg(self.data_directory()),
            FleetMode::Fleet { .. } => command.arg("ingress"),
        };
        command.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        self.ingress =
            Some(TestProcess::start("ingress", command, &self.output_path("ingress"), ProcessEnding::Kill));
    }

    pub async fn wait_ready(&mut self) {
        let client = self.client();
        let ingress = self.ingress.as_mut().expect("an ingress");
        eventually(READY, || {
            if let Some(status) = ingress.exit_status() {
                panic!("the ingress ended with {status} before it was ready: {}", ingress.output_text());
            }
            let request = client.request(Method::GET, "/readyz");
            async move {
                let reply = try_send(request).await.map_err(|error| error.to_string())?;
                if reply.status == 200 { Ok(()) } else { Err(format!("{}: {}", reply.status, reply.body)) }
            }
        })
        .await;
    }

    /// The front process: for signals and its exit status.
    pub fn ingress(&mut self) -> &mut TestProcess {
        self.ingress.as_mut().expect("an ingress")
    }

    /// SIGKILL to the front process.
    pub fn kill_ingress(&mut self) {
        self.ingress().kill();
    }

    /// SIGTERM to the front process, and its exit status once it has drained.
    pub async fn stop_ingress(&mut self) -> ExitStatus {
        let ingress = self.ingress();
        ingress.signal(Signal::SIGTERM);
        ingress.wait_for_exit(DRAINED).await
    }

    /// Starts one more worker of a fleet and answers its index.
    pub fn start_worker(&mut self, env: FleetEnv<'_>) -> usize {
        assert_ne!(self.mode, FleetMode::Embedded, "an embedded engine has no worker processes");
        let index = self.workers.len();
        let name = format!("worker-{index}");
        let mut command = self.command(env);
        command.arg("worker");
        self.workers.push(TestProcess::start(&name, command, &self.output_path(&name), ProcessEnding::Kill));
        index
    }

    pub fn worker(&mut self, index: usize) -> &mut TestProcess {
        &mut self.workers[index]
    }

    /// Starts another program with the fleet's settings: a user-written worker, in any language.
    pub fn start_other(
        &self,
        name: &str,
        program: impl AsRef<OsStr>,
        arguments: &[&str],
        env: FleetEnv<'_>,
    ) -> TestProcess {
        let mut command = self.command_of(program.as_ref(), env);
        command.args(arguments);
        TestProcess::start(name, command, &self.output_path(name), ProcessEnding::Kill)
    }

    /// Everything that the fleet's processes have written so far.
    pub fn all_outputs(&self) -> String {
        let entries = std::fs::read_dir(self.directory.path()).expect("read the directory");
        let logs = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension() == Some(OsStr::new("log")));
        logs.map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect()
    }

    /// SIGKILL to one worker.
    pub fn kill_worker(&mut self, index: usize) {
        self.workers[index].kill();
    }

    /// SIGTERM to one worker, and its exit status once it has drained.
    pub async fn stop_worker(&mut self, index: usize) -> ExitStatus {
        self.workers[index].signal(Signal::SIGTERM);
        self.workers[index].wait_for_exit(DRAINED).await
    }

    /// Runs a statement directly on the store and returns the number of changed rows.
    pub async fn execute_sql(&self, statement: &str) -> u64 {
        match &self.database {
            Some(FleetDatabase::Shared(database)) => {
                postgres::execute_statement(&database.url, statement).await
            }
            Some(FleetDatabase::Own(cluster)) => {
                postgres::execute_statement(&cluster.database_url("millstream"), statement).await
            }
            None => sqlite::execute_statement(&self.sqlite_file(), statement).await,
        }
    }

    /// The database of an embedded engine.
    pub fn sqlite_file(&self) -> PathBuf {
        self.data_directory().join("millstream.db")
    }

    /// Runs a subcommand with the fleet's settings to its end.
    pub fn run_cli<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Output {
        self.command(&[]).args(arguments).output().expect("run the binary")
    }

    /// The binary with this fleet's settings and nothing of the caller's.
    pub fn command(&self, env: FleetEnv<'_>) -> Command {
        self.command_of(self.binary.as_os_str(), env)
    }

    fn command_of(&self, program: &OsStr, env: FleetEnv<'_>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MILLSTREAM_")) {
            command.env_remove(name);
        }
        command.current_dir(self.directory.path());
        command.env("MILLSTREAM_URL", self.url());
        command.env("MILLSTREAM_HTTP_ALLOW", "127.0.0.0/8").env("MILLSTREAM_EXECUTOR_ALLOW", "127.0.0.0/8");
        match &self.database {
            Some(FleetDatabase::Shared(database)) => command.env("MILLSTREAM_DATABASE_URL", &database.url),
            Some(FleetDatabase::Own(cluster)) => {
                command.env("MILLSTREAM_DATABASE_URL", cluster.database_url("millstream"))
            }
            None => {
                command.env("MILLSTREAM_DATABASE_URL", format!("sqlite://{}", self.sqlite_file().display()))
            }
        };
        if let Some(redis) = &self.redis {
            command.env("MILLSTREAM_REDIS_URL", &redis.url);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.envs(env.iter().copied());
        command
    }

    fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn output_path(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.log"))
    }
}

impl Drop for TestFleet {
    fn drop(&mut self) {
        guard::forget_directory(self.directory.path());
    }
}

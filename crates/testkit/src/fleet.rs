//! The real binary, running: embedded in one process, or as an ingress and workers with their own
//! database and Redis.
//!
//! A test chooses a [`Mode`] and uses HTTP. It may kill, stop and start each process by name; a process
//! started with a crash point dies by itself and can be awaited. Nothing here knows what the engine does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::Method;
use tempfile::TempDir;

use crate::client::{Client, try_send};
use crate::daemon::Daemon;
use crate::eventually::eventually;
use crate::guard::{self, Ending};
use crate::port;
use crate::postgres::{self, TestCluster, TestDatabase};
use crate::redis::{self, TestRedis};
use crate::sqlite;

const READY: Duration = Duration::from_secs(30);
/// The engine's own drain deadline is 25 s; a process that needs longer has failed.
const DRAINED: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `millstream dev`: one process, SQLite, no services.
    Embedded,
    /// An ingress and `workers` workers on Postgres and Redis.
    Fleet { workers: usize },
}

/// Settings for processes, as environment variables.
pub type Env<'a> = &'a [(&'a str, &'a str)];

#[derive(Debug)]
pub struct Fleet {
    mode: Mode,
    binary: PathBuf,
    env: Vec<(String, String)>,
    port: u16,
    // Fields are dropped in this order: processes, services, and last the directory with the outputs.
    ingress: Option<Daemon>,
    workers: Vec<Daemon>,
    redis: Option<TestRedis>,
    database: Option<Database>,
    directory: TempDir,
}

#[derive(Debug)]
enum Database {
    Shared(TestDatabase),
    Own(TestCluster),
}

/// Whether the fleet's Postgres is a database on the shared cluster, or a cluster that may be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Postgres {
    Shared,
    Own,
}

impl Fleet {
    /// Starts everything and waits until it is ready. `env` goes to every process.
    pub async fn start(mode: Mode, binary: impl AsRef<Path>, env: Env<'_>) -> Self {
        Self::start_on(mode, Postgres::Shared, binary, env).await
    }

    /// One process of a user-written worker binary, which is the whole engine when no settings are given.
    pub async fn start_own(engine: impl AsRef<Path>, env: Env<'_>) -> Self {
        let mut fleet = Self::prepared(Mode::Embedded, engine.as_ref(), env);
        let mut command = fleet.command(&[]);
        command.env("MILLSTREAM_LISTEN", format!("127.0.0.1:{}", fleet.port));
        command.env("MILLSTREAM_DEV__DIR", fleet.data());
        command.env_remove("MILLSTREAM_DATABASE_URL");
        fleet.ingress = Some(Daemon::start("engine", command, &fleet.output("engine"), Ending::Kill));
        fleet.wait_ready().await;
        fleet
    }

    pub async fn start_on(mode: Mode, postgres: Postgres, binary: impl AsRef<Path>, env: Env<'_>) -> Self {
        let mut fleet = Self::prepared(mode, binary.as_ref(), env);
        if let Mode::Fleet { workers } = mode {
            fleet.redis = Some(redis::server().await);
            fleet.database = Some(match postgres {
                Postgres::Shared => Database::Shared(postgres::database().await),
                Postgres::Own => {
                    let cluster = postgres::cluster().await;
                    cluster.create_database("millstream").await;
                    Database::Own(cluster)
                }
            });
            let migrated = fleet.cli(["migrate"]);
            assert!(migrated.status.success(), "migrate failed: {migrated:?}");
            for _ in 0..workers {
                fleet.start_worker(&[]);
            }
        }
        fleet.start_ingress(&[]).await;
        fleet
    }

    fn prepared(mode: Mode, binary: &Path, env: Env<'_>) -> Self {
        let directory =
            tempfile::Builder::new().prefix("millstream-fleet-").tempdir().expect("make a directory");
        guard::watch_directory(directory.path());
        Self {
            mode,
            binary: binary.into(),
            env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            port: port::free(),
            directory,
            ingress: None,
            workers: Vec::new(),
            redis: None,
            database: None,
        }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url())
    }

    /// Where `dev` keeps its database, and where this fleet's output files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The private Redis of a fleet.
    pub fn redis(&mut self) -> &mut TestRedis {
        self.redis.as_mut().expect("only a fleet has Redis")
    }

    /// The private cluster of a fleet that was started with [`Postgres::Own`].
    pub fn postgres(&mut self) -> &mut TestCluster {
        match &mut self.database {
            Some(Database::Own(cluster)) => cluster,
            Some(Database::Shared(_)) | None => panic!("this fleet has no cluster of its own"),
        }
    }

    /// Starts the front process: the ingress of a fleet, or the whole embedded engine.
    pub async fn start_ingress(&mut self, env: Env<'_>) {
        self.launch_ingress(env);
        self.wait_ready().await;
    }

    /// The same without waiting, for processes that are expected to fail.
    pub fn launch_ingress(&mut self, env: Env<'_>) {
        let mut command = self.command(env);
        match self.mode {
            Mode::Embedded => command.arg("dev").arg("--dir").arg(self.data()),
            Mode::Fleet { .. } => command.arg("ingress"),
        };
        command.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        self.ingress = Some(Daemon::start("ingress", command, &self.output("ingress"), Ending::Kill));
    }

    pub async fn wait_ready(&mut self) {
        let client = self.client();
        let ingress = self.ingress.as_mut().expect("an ingress");
        eventually(READY, || {
            if let Some(status) = ingress.exited() {
                panic!("the ingress ended with {status} before it was ready: {}", ingress.output());
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
    pub fn ingress(&mut self) -> &mut Daemon {
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
        ingress.wait(DRAINED).await
    }

    /// Starts one more worker of a fleet and answers its index.
    pub fn start_worker(&mut self, env: Env<'_>) -> usize {
        assert_ne!(self.mode, Mode::Embedded, "an embedded engine has no worker processes");
        let index = self.workers.len();
        let name = format!("worker-{index}");
        let mut command = self.command(env);
        command.arg("worker");
        self.workers.push(Daemon::start(&name, command, &self.output(&name), Ending::Kill));
        index
    }

    pub fn worker(&mut self, index: usize) -> &mut Daemon {
        &mut self.workers[index]
    }

    /// Starts another program with the fleet's settings: a user-written worker, in any language.
    pub fn start_other(
        &self,
        name: &str,
        program: impl AsRef<OsStr>,
        arguments: &[&str],
        env: Env<'_>,
    ) -> Daemon {
        let mut command = self.command_of(program.as_ref(), env);
        command.args(arguments);
        Daemon::start(name, command, &self.output(name), Ending::Kill)
    }

    /// Everything that the fleet's processes have written so far.
    pub fn outputs(&self) -> String {
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
        self.workers[index].wait(DRAINED).await
    }

    /// Runs a statement directly on the store and returns the number of changed rows.
    pub async fn sql(&self, statement: &str) -> u64 {
        match &self.database {
            Some(Database::Shared(database)) => postgres::execute(&database.url, statement).await,
            Some(Database::Own(cluster)) => postgres::execute(&cluster.url("millstream"), statement).await,
            None => sqlite::execute(&self.sqlite_file(), statement).await,
        }
    }

    /// The database of an embedded engine.
    pub fn sqlite_file(&self) -> PathBuf {
        self.data().join("millstream.db")
    }

    /// Runs a subcommand with the fleet's settings to its end.
    pub fn cli<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Output {
        self.command(&[]).args(arguments).output().expect("run the binary")
    }

    /// The binary with this fleet's settings and nothing of the caller's.
    pub fn command(&self, env: Env<'_>) -> Command {
        self.command_of(self.binary.as_os_str(), env)
    }

    fn command_of(&self, program: &OsStr, env: Env<'_>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MILLSTREAM_")) {
            command.env_remove(name);
        }
        command.current_dir(self.directory.path());
        command.env("MILLSTREAM_URL", self.url());
        command.env("MILLSTREAM_HTTP_ALLOW", "127.0.0.0/8").env("MILLSTREAM_EXECUTOR_ALLOW", "127.0.0.0/8");
        match &self.database {
            Some(Database::Shared(database)) => command.env("MILLSTREAM_DATABASE_URL", &database.url),
            Some(Database::Own(cluster)) => command.env("MILLSTREAM_DATABASE_URL", cluster.url("millstream")),
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

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn output(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.log"))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        guard::forget_directory(self.directory.path());
    }
}

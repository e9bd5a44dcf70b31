//! Private Postgres: an empty database per test, or a whole cluster for tests that stop it.
//!
//! [`private_database`] takes the cluster that `MILLSTREAM_TEST_POSTGRES` names (one per test run, started
//! by `scripts/test`) and starts one for this process when it is unset. [`private_cluster`] is always a new
//! one. Flushing is off: these clusters must survive the kill of a process, not the loss of power.
//! Commits are still synchronous, or an immediate stop would lose what was answered.
//! It never touches a server that it did not start or was not given.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::certificates::TestCertificate;
use crate::daemon::TestProcess;
use crate::eventually::eventually;
use crate::guard::{self, ProcessEnding};
use crate::port;

pub const ADMIN_URL: &str = "MILLSTREAM_TEST_POSTGRES";

const START: Duration = Duration::from_secs(30);
const INSTALL: &str = "no PostgreSQL server found on PATH or in /usr/lib/postgresql/*/bin; \
                       install it: `apt-get install postgresql` (Debian, Ubuntu), \
                       `dnf install postgresql-server` (Fedora), `brew install postgresql@17` (macOS)";

/// A database of its own, empty, dropped with this value.
#[derive(Debug)]
pub struct TestDatabase {
    pub url: String,
    name: String,
    admin: String,
}

/// A new empty database on the shared private cluster.
pub async fn private_database() -> TestDatabase {
    static SHARED: OnceCell<TestCluster> = OnceCell::const_new();
    let admin = match std::env::var(ADMIN_URL) {
        Ok(url) => url,
        Err(_) => SHARED.get_or_init(private_cluster).await.database_url("postgres"),
    };
    let name = format!("t_{}", uuid::Uuid::new_v4().simple());
    create_database(&admin, &name).await;
    TestDatabase { url: with_database(&admin, &name), name, admin }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (admin, name) = (self.admin.clone(), self.name.clone());
        // A destructor cannot await on the runtime it runs in. The database of a removed cluster is already
        // gone, so a failure to drop it is ignored.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(run(&admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")))
        });
        drop(dropping.join());
    }
}

/// A cluster that belongs to one test, which may stop and start it. Removed with this value.
#[derive(Debug)]
pub struct TestCluster {
    binaries: PathBuf,
    port: u16,
    settings: Vec<String>,
    log: PathBuf,
    server: Option<TestProcess>,
    directory: TempDir,
    /// The certificate and the key of a cluster with TLS.
    _tls_files: Option<TempDir>,
}

/// A cluster whose server offers TLS with this certificate.
pub async fn cluster_with_tls(certificate: &TestCertificate) -> TestCluster {
    let base = server_base();
    let files =
        tempfile::Builder::new().prefix("millstream-pg-tls-").tempdir_in(&base).expect("make a directory");
    let (certificate, key) = certificate.write_pem_files(files.path(), "server");
    // The server refuses a key that others may read, and its user has to read it.
    hand_to_server_user(files.path());
    hand_to_server_user(&certificate);
    hand_to_server_user(&key);
    let certificate = format!("ssl_cert_file={}", certificate.display());
    let key = format!("ssl_key_file={}", key.display());
    let settings = ["shared_buffers=64MB", "ssl=on", &certificate, &key];
    let mut cluster = cluster_in(&base, &settings, None).await;
    cluster._tls_files = Some(files);
    cluster
}

/// A new private cluster, running.
pub async fn private_cluster() -> TestCluster {
    cluster_in(&server_base(), &["shared_buffers=64MB"], None).await
}

/// A directory that the server's user can reach, also where TMPDIR belongs to root.
fn server_base() -> PathBuf {
    if geteuid().is_root() { PathBuf::from("/tmp") } else { std::env::temp_dir() }
}

fn hand_to_server_user(path: &Path) {
    if let Some(user) = unprivileged_user() {
        let (uid, gid) = (Some(user.uid.as_raw()), Some(user.gid.as_raw()));
        std::os::unix::fs::chown(path, uid, gid).expect("hand a file to the server's user");
    }
}

/// The same in a directory below `base`, which the server's user can reach, with further settings and
/// perhaps its log elsewhere.
pub async fn cluster_in(base: &Path, settings: &[&str], log: Option<&Path>) -> TestCluster {
    let binaries = find_binaries();
    let directory =
        tempfile::Builder::new().prefix("millstream-pg-").tempdir_in(base).expect("make a directory");
    guard::watch_directory(directory.path());
    hand_to_server_user(directory.path());
    init_cluster(&binaries, directory.path());
    let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let log = log.map_or_else(|| directory.path().join("postgres.log"), Path::to_owned);
    let mut cluster = TestCluster {
        binaries,
        port: port::free_port(),
        settings,
        log,
        server: None,
        directory,
        _tls_files: None,
    };
    cluster.start().await;
    cluster
}

impl TestCluster {
    /// The address of a database of this cluster; `postgres` always exists.
    pub fn database_url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes an empty database and answers its address.
    pub async fn create_database(&self, name: &str) -> String {
        create_database(&self.database_url("postgres"), name).await;
        self.database_url(name)
    }

    /// Stops like a crash: open transactions are lost, the next start recovers.
    pub fn stop_immediate(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.end_process();
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path of the server's log.
    pub fn log_path(&self) -> PathBuf {
        self.log.clone()
    }

    /// SIGKILL to the server itself; its children notice and end too.
    pub async fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            let children = children_of(server.pid());
            server.kill();
            eventually(START, || {
                let alive: Vec<u32> = children.iter().copied().filter(|pid| is_child_alive(*pid)).collect();
                std::future::ready(if alive.is_empty() { Ok(()) } else { Err(alive) })
            })
            .await;
        }
    }

    /// A signal to the server and all its children.
    pub fn signal_all(&mut self, signal: Signal) {
        if let Some(server) = &mut self.server {
            let children = children_of(server.pid());
            server.signal(signal);
            for child in children {
                // It may have ended meanwhile.
                let _ = i32::try_from(child).map(|pid| kill(Pid::from_raw(pid), signal));
            }
        }
    }

    /// The exit status of a server that ended without being stopped.
    pub fn exit_status(&mut self) -> Option<std::process::ExitStatus> {
        self.server.as_mut().and_then(TestProcess::exit_status)
    }

    /// Starts on the same port, or does nothing when it runs; ready when this returns.
    pub async fn start(&mut self) {
        if self.exit_status().is_some() {
            self.server = None;
        }
        if self.server.is_some() {
            return;
        }
        let mut command = as_server_user(self.binaries.join("postgres"));
        command.arg("-D").arg(self.directory.path().join("data"));
        command.args(["-p", &self.port.to_string(), "-k", "", "-h", "127.0.0.1"]);
        for setting in ["fsync=off", "full_page_writes=off", "max_connections=300", "logging_collector=off"] {
            command.args(["-c", setting]);
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let output = self.log_path();
        self.server = Some(TestProcess::start("postgres", command, &output, ProcessEnding::Quit));
        let url = self.database_url("postgres");
        let server = &mut self.server;
        eventually(START, move || {
            if let Some(server) = server.as_mut()
                && let Some(status) = server.exit_status()
            {
                panic!("postgres ended with {status}: {}", server.output_text());
            }
            let url = url.clone();
            async move { PgConnection::connect(&url).await?.close().await }
        })
        .await;
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        self.stop_immediate();
        guard::forget_directory(self.directory.path());
    }
}

/// The processes that a process has started.
fn children_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("list processes").flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| matches!(status_of(*pid), Some((_, of)) if of == parent))
        .collect()
}

/// A zombie has ended and waits for its parent to read its status.
fn is_child_alive(pid: u32) -> bool {
    matches!(status_of(pid), Some((state, _)) if state != 'Z')
}

/// State and parent of a process.
fn status_of(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may contain anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn init_cluster(binaries: &Path, directory: &Path) {
    let output = as_server_user(binaries.join("initdb"))
        .arg("-D")
        .arg(directory.join("data"))
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
        .output()
        .expect("run initdb");
    assert!(output.status.success(), "initdb failed: {}", String::from_utf8_lossy(&output.stderr));
}

fn find_binaries() -> PathBuf {
    let on_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let mut versioned: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    versioned.sort();
    on_path
        .unwrap_or_default()
        .into_iter()
        .chain(versioned.into_iter().rev())
        .find(|directory| directory.join("initdb").is_file() && directory.join("postgres").is_file())
        .unwrap_or_else(|| panic!("{INSTALL}"))
}

/// An unprivileged user for the server, because Postgres refuses to run as root; `None` when this process is
/// not root.
fn unprivileged_user() -> Option<User> {
    if !geteuid().is_root() {
        return None;
    }
    let known = |name| User::from_name(name).ok().flatten();
    Some(
        known("postgres")
            .or_else(|| known("nobody"))
            .expect("an unprivileged user (such as `postgres`) to run Postgres as"),
    )
}

fn as_server_user(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").env("LC_ALL", "C");
    if let Some(user) = unprivileged_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

fn with_database(admin: &str, name: &str) -> String {
    let (base, query) =
        admin.split_once('?').map_or((admin, String::new()), |(base, query)| (base, format!("?{query}")));
    let (server, _) = base.rsplit_once('/').expect("an admin URL that ends in /database");
    format!("{server}/{name}{query}")
}

async fn create_database(admin: &str, name: &str) {
    run(admin, format!("CREATE DATABASE {name}"))
        .await
        .unwrap_or_else(|error| panic!("create database {name} on {admin}: {error}"));
}

/// Runs one statement and returns the number of changed rows.
pub async fn execute_statement(url: &str, statement: &str) -> u64 {
    run(url, statement.to_owned()).await.unwrap_or_else(|error| panic!("{statement}: {error}"))
}

async fn run(url: &str, statement: String) -> Result<u64, sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await?;
    Ok(done.rows_affected())
}

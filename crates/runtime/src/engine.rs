//! The embedded engine: an ingress and worker loops in one process, on SQLite and an in-process doorbell.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use millstream_model::id::WorkerId;
use millstream_model::time::Timestamp;
use millstream_store::clock::Clock;
use millstream_stream::StreamHandles;
use millstream_stream::embedded::EmbeddedStream;
use millstream_worker::PerformCalls;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::backend::{Database, parent_directory, sqlite_path};
use crate::config::{Config, DEFAULTS};
use crate::directory::{LockedDirectory, make_private_directory};
use crate::entropy::SystemEntropy;
use crate::listeners::{bind_listeners, most_exposed_address};
use crate::roles::{KeylessAccess, RoleDependencies, ingress_options, worker_options};
use crate::signals;
use crate::telemetry::MetricsText;

/// A running embedded engine.
#[derive(Debug)]
pub struct EmbeddedEngine {
    /// Addresses of the listeners: without TLS first.
    pub addresses: Vec<SocketAddr>,
    /// The URL for clients on this machine.
    pub url: String,
    pub shared: RoleDependencies,
    pub database_path: PathBuf,
    database: Database,
    config: Config,
    calls: Option<Arc<dyn PerformCalls>>,
    /// Set after a crash of the previous process: its in-memory doorbells are lost.
    suspect_before: Option<Timestamp>,
    door: JoinHandle<Result<(), millstream_ingress::IngressError>>,
    loops: Vec<(WorkerId, JoinHandle<Result<(), millstream_worker::WorkerFailure>>)>,
    /// Cancelled before `worker_shutdown`: the ingress drains first, so that workers process what it accepted
    /// last.
    door_shutdown: CancellationToken,
    worker_shutdown: CancellationToken,
    _directory: LockedDirectory,
    _database_lock: Option<LockedDirectory>,
}

impl EmbeddedEngine {
    /// Opens or creates the directory, migrates the tables, listens, starts the loops.
    pub async fn start(
        config: Config,
        calls: Option<Arc<dyn PerformCalls>>,
        metrics: MetricsText,
    ) -> Result<Self> {
        Self::start_with_openness(config, KeylessAccess::Careful, calls, metrics).await
    }

    /// The same, for a non-loopback address that may serve calls without a key.
    pub async fn start_with_openness(
        mut config: Config,
        openness: KeylessAccess,
        calls: Option<Arc<dyn PerformCalls>>,
        metrics: MetricsText,
    ) -> Result<Self> {
        let directory = LockedDirectory::acquire(&config.dev.dir)?;
        let database_path = database_path(&config, directory.path())?;
        let database_lock = lock_other_directory(&database_path, directory.path())?;
        let database = Database::open_sqlite(&database_path).await?;
        database.migrate().await?;
        config.http_allow.0.extend(loopback_networks());
        config.executor_allow.0.extend(loopback_networks());

        let shared = RoleDependencies::new(
            database.stores(),
            StreamHandles::from_backend(EmbeddedStream::new(&SystemEntropy::from_system())),
        )
        .await;
        let suspect_before = previous_crash(&shared).await?;
        let exposed = most_exposed_address(&config)?;
        let options = ingress_options(&config, exposed, openness, &shared.stores).await?;
        let listeners = bind_listeners(&config).await?;
        let (addresses, url) = (listeners.addresses()?, listeners.url()?);
        let (door_shutdown, worker_shutdown) = (CancellationToken::new(), CancellationToken::new());
        let door = tokio::spawn(millstream_ingress::run_ingress(
            shared.ingress_deps(metrics),
            options,
            listeners,
            door_shutdown.clone(),
        ));
        let mut engine = Self {
            addresses,
            url,
            shared,
            database_path,
            database,
            config,
            calls,
            suspect_before,
            door,
            loops: Vec::new(),
            door_shutdown,
            worker_shutdown,
            _directory: directory,
            _database_lock: database_lock,
        };
        for _ in 0..engine.config.dev.workers.max(1) {
            engine.start_loop()?;
        }
        Ok(engine)
    }

    /// Starts one more worker loop.
    pub fn start_loop(&mut self) -> Result<WorkerId> {
        let worker = self.shared.worker_id()?;
        let mut options = worker_options(&self.config, worker.clone())?;
        options.suspect_before = self.suspect_before;
        let running = tokio::spawn(millstream_worker::run_worker(
            self.shared.worker_deps(&self.config, self.calls.clone())?,
            options,
            self.worker_shutdown.clone(),
        ));
        self.loops.push((worker.clone(), running));
        Ok(worker)
    }

    /// Aborts a worker loop at an arbitrary point, as a crash would.
    pub fn kill_loop(&mut self) -> Option<WorkerId> {
        let (worker, running) = self.loops.pop()?;
        running.abort();
        Some(worker)
    }

    /// Works until `shutdown`, then stops.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<()> {
        signals::notify_ready();
        tokio::select! {
            () = shutdown.cancelled() => {}
            ended = self.first_ended_task() => {
                ended?;
                bail!("a task of the engine ended unexpectedly; see its log");
            }
        }
        self.stop().await
    }

    /// Drains the ingress, then the workers, then closes the database.
    pub async fn stop(self) -> Result<()> {
        self.door_shutdown.cancel();
        let door = self.door.await;
        self.worker_shutdown.cancel();
        for (worker, running) in self.loops {
            if let Ok(Err(error)) = running.await {
                tracing::error!(%worker, %error, "worker loop failed");
            }
        }
        self.database.close().await;
        Ok(door??)
    }

    /// Resolves when a task of the engine ends unexpectedly.
    async fn first_ended_task(&mut self) -> Result<()> {
        let loops = futures::future::select_all(self.loops.iter_mut().map(|(_, running)| running));
        tokio::select! {
            door = &mut self.door => Ok(door??),
            (ended, _, _) = loops => Ok(ended??),
        }
    }
}

/// Detects a crash of the previous process: the present time if one occurred. The directory lock excludes a
/// process that still runs.
async fn previous_crash(shared: &RoleDependencies) -> Result<Option<Timestamp>> {
    let dead = millstream_worker::release_duties_of_dead_workers(&shared.stores).await?;
    if dead == 0 {
        return Ok(None);
    }
    tracing::warn!(
        workers = dead,
        "the previous process crashed; its undecided events are checked for poison events"
    );
    Ok(Some(shared.clock.now()))
}

/// The file in the directory, unless the settings name another SQLite file.
fn database_path(config: &Config, directory: &Path) -> Result<PathBuf> {
    let default_line = format!("database_url = {:?}", config.database_url);
    if DEFAULTS.lines().any(|line| line == default_line) {
        return Ok(directory.join("millstream.db"));
    }
    sqlite_path(&config.database_url).with_context(
        || "`dev` runs on SQLite: unset MILLSTREAM_DATABASE_URL, or run `ingress` and `worker` on PostgreSQL",
    )
}

/// Locks a database outside the engine's directory as well: two engines must not share one.
fn lock_other_directory(database: &Path, directory: &Path) -> Result<Option<LockedDirectory>> {
    let home = parent_directory(database);
    make_private_directory(home)?;
    if home.canonicalize()? == directory.canonicalize()? {
        return Ok(None);
    }
    LockedDirectory::acquire(home).map(Some)
}

fn loopback_networks() -> impl Iterator<Item = ipnet::IpNet> {
    let v4 = ipnet::Ipv4Net::new(std::net::Ipv4Addr::new(127, 0, 0, 0), 8).ok().map(ipnet::IpNet::V4);
    let v6 = Some(ipnet::IpNet::from(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)));
    [v4, v6].into_iter().flatten()
}

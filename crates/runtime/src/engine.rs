//! The embedded engine: a door and worker loops in one process, on SQLite and an in-process doorbell.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use millstream_core::id::WorkerId;
use millstream_core::time::Timestamp;
use millstream_store::clock::Clock;
use millstream_stream::Streams;
use millstream_stream::embedded::EmbeddedStream;
use millstream_worker::PerformCalls;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::backend::{Database, home, sqlite_path};
use crate::config::{Config, DEFAULTS};
use crate::directory::HeldDirectory;
use crate::entropy::SystemEntropy;
use crate::listeners::{bind_listeners, most_exposed_address};
use crate::roles::{Openness, Shared, ingress_options, worker_options};
use crate::signals;
use crate::telemetry::MetricsText;

/// A running embedded engine.
#[derive(Debug)]
pub struct Engine {
    /// Where it listens: without TLS first.
    pub addresses: Vec<SocketAddr>,
    /// What clients on this machine talk to.
    pub url: String,
    pub shared: Shared,
    pub database_path: PathBuf,
    database: Database,
    config: Config,
    calls: Option<Arc<dyn PerformCalls>>,
    /// Set when the process before this one died: its doorbells died with it.
    suspect_before: Option<Timestamp>,
    door: JoinHandle<Result<(), millstream_ingress::IngressError>>,
    loops: Vec<(WorkerId, JoinHandle<Result<(), millstream_worker::WorkerError>>)>,
    /// The door drains first, so that what it accepted last is still worked on.
    door_shutdown: CancellationToken,
    worker_shutdown: CancellationToken,
    _directory: HeldDirectory,
    _database_lock: Option<HeldDirectory>,
}

impl Engine {
    /// Open (or make) the directory, bring the tables up to date, listen, start the loops.
    pub async fn start(
        config: Config,
        calls: Option<Arc<dyn PerformCalls>>,
        metrics: MetricsText,
    ) -> Result<Self> {
        Self::start_with(config, Openness::Careful, calls, metrics).await
    }

    /// The same, on an address where calls may come without a key although it is not loopback.
    pub async fn start_with(
        mut config: Config,
        openness: Openness,
        calls: Option<Arc<dyn PerformCalls>>,
        metrics: MetricsText,
    ) -> Result<Self> {
        let directory = HeldDirectory::hold(&config.dev.dir)?;
        let database_path = database_path(&config, directory.path())?;
        let database_lock = hold_elsewhere(&database_path, directory.path())?;
        let database = Database::open_sqlite(&database_path).await?;
        database.migrate().await?;
        config.http_allow.0.extend(loopback_networks());
        config.executor_allow.0.extend(loopback_networks());

        let shared =
            Shared::new(database.stores(), Streams::of(EmbeddedStream::new(&SystemEntropy::seeded()))).await;
        let suspect_before = died_before(&shared).await?;
        let exposed = most_exposed_address(&config)?;
        let options = ingress_options(&config, exposed, openness, &shared.stores).await?;
        let listeners = bind_listeners(&config).await?;
        let (addresses, url) = (listeners.addresses()?, listeners.url()?);
        let (door_shutdown, worker_shutdown) = (CancellationToken::new(), CancellationToken::new());
        let door = tokio::spawn(millstream_ingress::run(
            shared.ingress(metrics),
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

    /// One more worker loop.
    pub fn start_loop(&mut self) -> Result<WorkerId> {
        let worker = self.shared.worker_id()?;
        let mut options = worker_options(&self.config, worker.clone())?;
        options.suspect_before = self.suspect_before;
        let running = tokio::spawn(millstream_worker::run(
            self.shared.worker(&self.config, self.calls.clone())?,
            options,
            self.worker_shutdown.clone(),
        ));
        self.loops.push((worker.clone(), running));
        Ok(worker)
    }

    /// End a worker loop in the middle of whatever it does, as a crash would.
    pub fn kill_loop(&mut self) -> Option<WorkerId> {
        let (worker, running) = self.loops.pop()?;
        running.abort();
        Some(worker)
    }

    /// Work until `shutdown`, then stop.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<()> {
        signals::notify_ready();
        tokio::select! {
            () = shutdown.cancelled() => {}
            ended = self.ended() => {
                ended?;
                bail!("a part of the engine ended by itself; its log says why");
            }
        }
        self.stop().await
    }

    /// Drain the door, then the workers, then close the database.
    pub async fn stop(self) -> Result<()> {
        self.door_shutdown.cancel();
        let door = self.door.await;
        self.worker_shutdown.cancel();
        for (worker, running) in self.loops {
            if let Ok(Err(error)) = running.await {
                tracing::error!(%worker, %error, "worker loop ended badly");
            }
        }
        self.database.close().await;
        Ok(door??)
    }

    /// Resolves when a part of the engine ends by itself, which it never should.
    async fn ended(&mut self) -> Result<()> {
        let loops = futures::future::select_all(self.loops.iter_mut().map(|(_, running)| running));
        tokio::select! {
            door = &mut self.door => Ok(door??),
            (ended, _, _) = loops => Ok(ended??),
        }
    }
}

/// Now, if the last process died. The directory is held: nobody else can be up.
async fn died_before(shared: &Shared) -> Result<Option<Timestamp>> {
    let dead = millstream_worker::succeed_the_dead(&shared.stores).await?;
    if dead == 0 {
        return Ok(None);
    }
    tracing::warn!(workers = dead, "the last process died; what it left undecided is tried with care");
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

/// A database outside the engine's directory is held as well: two engines must not share one.
fn hold_elsewhere(database: &Path, directory: &Path) -> Result<Option<HeldDirectory>> {
    let home = home(database);
    std::fs::create_dir_all(home).with_context(|| format!("cannot make the directory {}", home.display()))?;
    if home.canonicalize()? == directory.canonicalize()? {
        return Ok(None);
    }
    HeldDirectory::hold(home).map(Some)
}

fn loopback_networks() -> impl Iterator<Item = ipnet::IpNet> {
    let v4 = ipnet::Ipv4Net::new(std::net::Ipv4Addr::new(127, 0, 0, 0), 8).ok().map(ipnet::IpNet::V4);
    let v6 = Some(ipnet::IpNet::from(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)));
    [v4, v6].into_iter().flatten()
}

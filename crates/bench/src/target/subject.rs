//! The engine under test, as the rest of the crate sees it: an address, counters, processes.

use std::path::PathBuf;
use std::sync::Arc;

use super::child::ChildSettings;
use super::fleet::{self, EngineProcesses};
use super::guard::CleanupGuard;
use crate::error::{BenchError, BenchResult};
use crate::exposition::MetricsExposition;
use crate::external_workers::{ExternalWorkerOptions, ExternalWorkers};
use crate::graph::{BenchExecutor, EXECUTOR};
use crate::plan::BenchTarget;
use crate::postgres::PrivateDatabase;
use crate::wire::{BenchConnection, ServerAddress};
use crate::workload::ActionPerformers;

/// Location of a role, for its CPU time and memory.
#[derive(Debug, Clone)]
pub(crate) struct EngineRole {
    pub(crate) name: String,
    pub(crate) place: RoleLocation,
}

#[derive(Debug, Clone)]
pub(crate) enum RoleLocation {
    Process(u32),
    /// A thread of this process, by the path of its CPU clock.
    Thread(PathBuf),
}

/// Parameters for starting an engine.
#[derive(Debug, Clone)]
pub(crate) struct EngineStart {
    pub(crate) guard: Arc<CleanupGuard>,
    pub(crate) binary: PathBuf,
    pub(crate) settings: ChildSettings,
    /// Unique id of this run.
    pub(crate) run: String,
    pub(crate) hands: ActionPerformers,
}

impl EngineStart {
    /// Data directory of an embedded engine of this run.
    pub(crate) fn directory(&self) -> PathBuf {
        self.guard.directory().join(&self.run)
    }

    pub(crate) fn database_file(&self) -> PathBuf {
        self.directory().join("millstream.db")
    }

    /// Prefix of the Redis keys of this run.
    pub(crate) fn redis_prefix(&self) -> String {
        format!("bench-{}", self.run)
    }
}

/// A running engine.
#[derive(Debug)]
pub(crate) struct EngineUnderTest {
    pub(crate) address: ServerAddress,
    pub(crate) database: EngineStorage,
    /// Connections for the workers' counters.
    probes: Vec<BenchConnection>,
    front: BenchConnection,
    before: MetricsExposition,
    /// Declared before the processes: dropped first.
    crew: Option<ExternalWorkers>,
    /// Likewise, for the executor of graph nodes.
    executor: Option<BenchExecutor>,
    processes: Option<EngineProcesses>,
}

/// The engine's storage, as far as it is accessible.
#[derive(Debug, Clone)]
pub(crate) enum EngineStorage {
    Postgres {
        url: String,
    },
    Sqlite {
        file: PathBuf,
    },
    /// Storage of another owner; only HTTP is accessible.
    Unknown,
}

/// Whether the workers run from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerStart {
    AtOnce,
    Later,
}

impl EngineUnderTest {
    /// Starts the engine, or connects to a running one and records its existing backlog.
    pub(crate) async fn start(
        target: &BenchTarget,
        database: Option<&PrivateDatabase>,
        start: &EngineStart,
        workers: WorkerStart,
    ) -> BenchResult<Self> {
        let mut subject = Self::start_one(target, database, start, workers).await?;
        if let BenchTarget::Url { .. } = target {
            subject.before = subject.front_metrics().await?;
        }
        Ok(subject)
    }

    async fn start_one(
        target: &BenchTarget,
        database: Option<&PrivateDatabase>,
        start: &EngineStart,
        workers: WorkerStart,
    ) -> BenchResult<Self> {
        match target {
            BenchTarget::Url { url, key } => Ok(Self::at_address(ServerAddress::parse_url(url, key)?)),
            BenchTarget::Embedded { workers: loops } => {
                let (processes, address, file) = fleet::start_embedded(start, *loops).await?;
                let mut subject = Self::at_address(address.clone());
                subject.database = EngineStorage::Sqlite { file };
                subject.probes = vec![BenchConnection::to_server(&address)];
                subject.processes = Some(processes);
                Ok(subject)
            }
            BenchTarget::Fleet { workers: count, redis_url, .. } => {
                let database =
                    database.ok_or_else(|| BenchError::Wrong("a fleet without a database".to_owned()))?;
                let settings = fleet::fleet_settings(start, &database.url, redis_url, &start.redis_prefix());
                let (processes, address) = fleet::start_ingress(start, settings).await?;
                let mut subject = Self::at_address(address);
                subject.database = EngineStorage::Postgres { url: database.url.clone() };
                subject.processes = Some(processes);
                if workers == WorkerStart::AtOnce {
                    subject.start_workers(start, *count).await?;
                }
                Ok(subject)
            }
        }
    }

    fn at_address(address: ServerAddress) -> Self {
        let front = BenchConnection::to_server(&address);
        Self {
            address,
            database: EngineStorage::Unknown,
            probes: Vec::new(),
            front,
            before: MetricsExposition::default(),
            processes: None,
            crew: None,
            executor: None,
        }
    }

    /// Adds workers to a fleet and waits until they run.
    pub(crate) async fn start_workers(&mut self, start: &EngineStart, count: usize) -> BenchResult<()> {
        let Some(processes) = self.processes.as_mut() else { return Ok(()) };
        let probes = processes.start_workers(start, count).await?;
        self.probes.extend(probes.iter().map(BenchConnection::to_server));
        Ok(())
    }

    /// Connects to the same ingress for a tenant, with a key created for it.
    pub(crate) async fn as_tenant(
        &mut self,
        start: &EngineStart,
        tenant: &str,
    ) -> BenchResult<ServerAddress> {
        let Some(processes) = self.processes.as_ref() else {
            return Err(BenchError::Wrong("only an engine of its own has keys for tenants".to_owned()));
        };
        let key = processes.create_key(start, tenant).await?;
        ServerAddress::parse_url(&self.address.url(), &key)
    }

    /// Suspends the workers until they are continued.
    pub(crate) fn stop_workers(&self) -> BenchResult<()> {
        self.processes.as_ref().map_or(Ok(()), |processes| processes.signal_workers("-STOP"))
    }

    pub(crate) fn continue_workers(&self) -> BenchResult<()> {
        self.processes.as_ref().map_or(Ok(()), |processes| processes.signal_workers("-CONT"))
    }

    /// A connection to the ingress, for set-up and queries.
    pub(crate) fn front_connection(&mut self) -> &mut BenchConnection {
        &mut self.front
    }

    /// The workers' counters; `None` when they cannot be asked.
    pub(crate) async fn worker_counters(&mut self) -> BenchResult<Option<Vec<MetricsExposition>>> {
        if self.probes.is_empty() {
            return Ok(None);
        }
        let mut seen = Vec::with_capacity(self.probes.len());
        for probe in &mut self.probes {
            seen.push(MetricsExposition::from_body(probe.get("/metrics").await?));
        }
        Ok(Some(seen))
    }

    /// The ingress's counters, the store's backlog included.
    pub(crate) async fn front_metrics(&mut self) -> BenchResult<MetricsExposition> {
        Ok(MetricsExposition::from_body(self.front.get("/metrics").await?))
    }

    /// Value of a gauge of the ingress before the run: a shared engine may have work of its own.
    pub(crate) fn initial_gauge(&self, gauge: &str) -> f64 {
        self.before.sum_series(gauge, "")
    }

    pub(crate) fn roles(&self) -> Vec<EngineRole> {
        let mut roles = self.processes.as_ref().map(EngineProcesses::roles).unwrap_or_default();
        let clock = self.crew.as_ref().and_then(ExternalWorkers::cpu_clock);
        roles.extend(clock.map(|stat| EngineRole {
            name: "task workers".to_owned(),
            place: RoleLocation::Thread(stat.clone()),
        }));
        let clock = self.executor.as_ref().and_then(BenchExecutor::cpu_clock);
        roles.extend(
            clock.map(|stat| EngineRole {
                name: EXECUTOR.to_owned(),
                place: RoleLocation::Thread(stat.clone()),
            }),
        );
        roles
    }

    /// Names of the roles that are engine processes, as far as they were started here.
    pub(crate) fn engine_roles(&self) -> Vec<String> {
        let roles = self.processes.as_ref().map(EngineProcesses::roles).unwrap_or_default();
        roles.into_iter().map(|role| role.name).collect()
    }

    /// The process behind the ingress address, if it was started here.
    pub(crate) fn front_process(&self) -> Option<u32> {
        self.processes.as_ref().map(EngineProcesses::front_process)
    }

    /// Starts external workers; they work until the engine is stopped.
    pub(crate) async fn start_external_workers(&mut self, shape: ExternalWorkerOptions) -> BenchResult<()> {
        self.crew = Some(ExternalWorkers::start(&self.address, shape).await?);
        Ok(())
    }

    /// The external workers.
    pub(crate) fn external_workers(&self) -> BenchResult<&ExternalWorkers> {
        self.crew.as_ref().ok_or_else(|| BenchError::Wrong("no external workers were started".to_owned()))
    }

    /// Starts an executor for the graphs of this run; it performs nodes until the engine is stopped.
    pub(crate) async fn start_executor(&mut self, run: &str, capacity: u32) -> BenchResult<()> {
        self.executor = Some(BenchExecutor::start(&self.address, run, capacity).await?);
        Ok(())
    }

    /// The executor for graphs.
    pub(crate) fn graph_executor(&self) -> BenchResult<&BenchExecutor> {
        self.executor.as_ref().ok_or_else(|| BenchError::Wrong("no executor was started".to_owned()))
    }

    /// Tasks completed by external workers.
    pub(crate) fn tasks_completed_outside(&self) -> u64 {
        self.crew.as_ref().map_or(0, ExternalWorkers::completed_tasks)
    }

    /// Fails when a process has died, or an external worker or executor got an unexpected answer.
    pub(crate) fn check_alive(&mut self) -> BenchResult<()> {
        self.crew.as_ref().map_or(Ok(()), ExternalWorkers::check_error)?;
        self.executor.as_ref().map_or(Ok(()), BenchExecutor::check_error)?;
        self.processes.as_mut().map_or(Ok(()), EngineProcesses::check_alive)
    }

    /// The ends of all logs, for an error message.
    pub(crate) fn log_tails(&self) -> String {
        self.processes.as_ref().map(EngineProcesses::log_tails).unwrap_or_default()
    }
}

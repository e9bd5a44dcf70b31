//! The engine under test, as the rest of the crate sees it: an address, counters, processes.

use std::path::PathBuf;
use std::sync::Arc;

use super::child::Settings;
use super::fleet::{self, Processes};
use super::guard::Guard;
use crate::crew::{Crew, Shape};
use crate::error::{BenchError, Result};
use crate::exposition::Exposition;
use crate::graph::{EXECUTOR, Executor};
use crate::plan::Target;
use crate::postgres::PrivateDatabase;
use crate::wire::{Address, Connection};
use crate::workload::Hands;

/// Location of a role, for its CPU time and memory.
#[derive(Debug, Clone)]
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) place: Place,
}

#[derive(Debug, Clone)]
pub(crate) enum Place {
    Process(u32),
    /// A thread of this process, by the path of its CPU clock.
    Thread(PathBuf),
}

/// Parameters for starting an engine.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) guard: Arc<Guard>,
    pub(crate) binary: PathBuf,
    pub(crate) settings: Settings,
    /// Unique id of this run.
    pub(crate) run: String,
    pub(crate) hands: Hands,
}

impl Start {
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
pub(crate) struct Subject {
    pub(crate) address: Address,
    pub(crate) database: Data,
    /// Connections for the workers' counters.
    probes: Vec<Connection>,
    front: Connection,
    before: Exposition,
    /// Declared before the processes: dropped first.
    crew: Option<Crew>,
    /// Likewise, for the executor of graph nodes.
    executor: Option<Executor>,
    processes: Option<Processes>,
}

/// The engine's storage, as far as it is accessible.
#[derive(Debug, Clone)]
pub(crate) enum Data {
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
pub(crate) enum Workers {
    AtOnce,
    Later,
}

impl Subject {
    /// Starts the engine, or connects to a running one and records its existing backlog.
    pub(crate) async fn start(
        target: &Target,
        database: Option<&PrivateDatabase>,
        start: &Start,
        workers: Workers,
    ) -> Result<Self> {
        let mut subject = Self::start_one(target, database, start, workers).await?;
        if let Target::Url { .. } = target {
            subject.before = subject.front_metrics().await?;
        }
        Ok(subject)
    }

    async fn start_one(
        target: &Target,
        database: Option<&PrivateDatabase>,
        start: &Start,
        workers: Workers,
    ) -> Result<Self> {
        match target {
            Target::Url { url, key } => Ok(Self::at(Address::of(url, key)?)),
            Target::Embedded { workers: loops } => {
                let (processes, address, file) = fleet::start_embedded(start, *loops).await?;
                let mut subject = Self::at(address.clone());
                subject.database = Data::Sqlite { file };
                subject.probes = vec![Connection::to(&address)];
                subject.processes = Some(processes);
                Ok(subject)
            }
            Target::Fleet { workers: count, redis_url, .. } => {
                let database =
                    database.ok_or_else(|| BenchError::Wrong("a fleet without a database".to_owned()))?;
                let settings = fleet::settings(start, &database.url, redis_url, &start.redis_prefix());
                let (processes, address) = fleet::start_ingress(start, settings).await?;
                let mut subject = Self::at(address);
                subject.database = Data::Postgres { url: database.url.clone() };
                subject.processes = Some(processes);
                if workers == Workers::AtOnce {
                    subject.start_workers(start, *count).await?;
                }
                Ok(subject)
            }
        }
    }

    fn at(address: Address) -> Self {
        let front = Connection::to(&address);
        Self {
            address,
            database: Data::Unknown,
            probes: Vec::new(),
            front,
            before: Exposition::default(),
            processes: None,
            crew: None,
            executor: None,
        }
    }

    /// Adds workers to a fleet and waits until they run.
    pub(crate) async fn start_workers(&mut self, start: &Start, count: usize) -> Result<()> {
        let Some(processes) = self.processes.as_mut() else { return Ok(()) };
        let probes = processes.start_workers(start, count).await?;
        self.probes.extend(probes.iter().map(Connection::to));
        Ok(())
    }

    /// Connects to the same ingress for a tenant, with a key created for it.
    pub(crate) async fn as_tenant(&mut self, start: &Start, tenant: &str) -> Result<Address> {
        let Some(processes) = self.processes.as_ref() else {
            return Err(BenchError::Wrong("only an engine of its own has keys for tenants".to_owned()));
        };
        let key = processes.create_key(start, tenant).await?;
        Address::of(&self.address.url(), &key)
    }

    /// Suspends the workers until they are continued.
    pub(crate) fn stop_workers(&self) -> Result<()> {
        self.processes.as_ref().map_or(Ok(()), |processes| processes.signal_workers("-STOP"))
    }

    pub(crate) fn continue_workers(&self) -> Result<()> {
        self.processes.as_ref().map_or(Ok(()), |processes| processes.signal_workers("-CONT"))
    }

    /// A connection to the ingress, for set-up and queries.
    pub(crate) fn front(&mut self) -> &mut Connection {
        &mut self.front
    }

    /// The workers' counters; `None` when they cannot be asked.
    pub(crate) async fn counters(&mut self) -> Result<Option<Vec<Exposition>>> {
        if self.probes.is_empty() {
            return Ok(None);
        }
        let mut seen = Vec::with_capacity(self.probes.len());
        for probe in &mut self.probes {
            seen.push(Exposition::of(probe.get("/metrics").await?));
        }
        Ok(Some(seen))
    }

    /// The ingress's counters, the store's backlog included.
    pub(crate) async fn front_metrics(&mut self) -> Result<Exposition> {
        Ok(Exposition::of(self.front.get("/metrics").await?))
    }

    /// Value of a gauge of the ingress before the run: a shared engine may have work of its own.
    pub(crate) fn before(&self, gauge: &str) -> f64 {
        self.before.sum(gauge, "")
    }

    pub(crate) fn roles(&self) -> Vec<Role> {
        let mut roles = self.processes.as_ref().map(Processes::roles).unwrap_or_default();
        let clock = self.crew.as_ref().and_then(Crew::clock);
        roles.extend(
            clock.map(|stat| Role { name: "task workers".to_owned(), place: Place::Thread(stat.clone()) }),
        );
        let clock = self.executor.as_ref().and_then(Executor::clock);
        roles
            .extend(clock.map(|stat| Role { name: EXECUTOR.to_owned(), place: Place::Thread(stat.clone()) }));
        roles
    }

    /// Names of the roles that are engine processes, as far as they were started here.
    pub(crate) fn engine_roles(&self) -> Vec<String> {
        let roles = self.processes.as_ref().map(Processes::roles).unwrap_or_default();
        roles.into_iter().map(|role| role.name).collect()
    }

    /// The process behind the ingress address, if it was started here.
    pub(crate) fn front_process(&self) -> Option<u32> {
        self.processes.as_ref().map(Processes::front_process)
    }

    /// Starts external workers; they work until the engine is stopped.
    pub(crate) async fn hire(&mut self, shape: Shape) -> Result<()> {
        self.crew = Some(Crew::start(&self.address, shape).await?);
        Ok(())
    }

    /// The external workers.
    pub(crate) fn crew(&self) -> Result<&Crew> {
        self.crew.as_ref().ok_or_else(|| BenchError::Wrong("no external workers were started".to_owned()))
    }

    /// Starts an executor for the graphs of this run; it performs nodes until the engine is stopped.
    pub(crate) async fn engage(&mut self, run: &str, capacity: u32) -> Result<()> {
        self.executor = Some(Executor::start(&self.address, run, capacity).await?);
        Ok(())
    }

    /// The executor for graphs.
    pub(crate) fn executor(&self) -> Result<&Executor> {
        self.executor.as_ref().ok_or_else(|| BenchError::Wrong("no executor was started".to_owned()))
    }

    /// Tasks completed by external workers.
    pub(crate) fn completed_outside(&self) -> u64 {
        self.crew.as_ref().map_or(0, Crew::completed)
    }

    /// Fails when a process has died, or an external worker or executor got an unexpected answer.
    pub(crate) fn alive(&mut self) -> Result<()> {
        self.crew.as_ref().map_or(Ok(()), Crew::well)?;
        self.executor.as_ref().map_or(Ok(()), Executor::well)?;
        self.processes.as_mut().map_or(Ok(()), Processes::alive)
    }

    /// The ends of all logs, for an error message.
    pub(crate) fn logs(&self) -> String {
        self.processes.as_ref().map(Processes::logs).unwrap_or_default()
    }
}

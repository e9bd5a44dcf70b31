//! Processes of an engine started here: an ingress and workers, or one embedded engine.

use std::path::PathBuf;

use super::child::{ChildSettings, EngineChild};
use super::port;
use super::subject::{EngineRole, EngineStart, RoleLocation};
use crate::error::{BenchError, BenchResult};
use crate::wire::ServerAddress;
use crate::workload::ActionPerformers;

/// Child processes, killed in this order when dropped: the workers before the ingress.
#[derive(Debug)]
pub(super) struct EngineProcesses {
    workers: Vec<EngineChild>,
    front: EngineChild,
    settings: ChildSettings,
}

/// Common settings of the processes of a fleet.
pub(super) fn fleet_settings(
    start: &EngineStart,
    database_url: &str,
    redis_url: &str,
    redis_prefix: &str,
) -> ChildSettings {
    let mut settings = start.settings.clone();
    settings.extend([
        setting_variable("DATABASE_URL", database_url),
        setting_variable("REDIS_URL", redis_url),
        setting_variable("REDIS__PREFIX", redis_prefix),
        setting_variable("HTTP_ALLOW", "127.0.0.0/8"),
        setting_variable("EXECUTOR_ALLOW", "127.0.0.0/8"),
    ]);
    settings
}

/// Migrates the tables, then starts the ingress.
pub(super) async fn start_ingress(
    start: &EngineStart,
    settings: ChildSettings,
) -> BenchResult<(EngineProcesses, ServerAddress)> {
    let mut migrate = EngineChild::start(&start.guard, &start.binary, "migrate", &["migrate"], &settings)?;
    migrate.wait_for_end().await?;
    let port = port::free_port()?;
    let listen = format!("127.0.0.1:{port}");
    let arguments = ["ingress", "--listen", &listen];
    let mut front = EngineChild::start(&start.guard, &start.binary, "ingress", &arguments, &settings)?;
    let address = ServerAddress::on_loopback(port);
    front.wait_until_ready(&address).await?;
    Ok((EngineProcesses { workers: Vec::new(), front, settings }, address))
}

/// Starts `millstream dev` in a directory of its own; returns its database file too.
pub(super) async fn start_embedded(
    start: &EngineStart,
    loops: usize,
) -> BenchResult<(EngineProcesses, ServerAddress, PathBuf)> {
    let (port, settings) = (port::free_port()?, start.settings.clone());
    let (listen, loops, dir) =
        (format!("127.0.0.1:{port}"), loops.to_string(), start.directory().display().to_string());
    let database = start.database_file();
    let url = format!("sqlite://{}", database.display());
    let role = match start.hands {
        ActionPerformers::Engine => "dev",
        ActionPerformers::Function | ActionPerformers::Outside => "bench-dev",
    };
    let arguments = [role, "--dir", &dir, "--listen", &listen, "--workers", &loops, "--database-url", &url];
    let mut front = EngineChild::start(&start.guard, &start.binary, "embedded", &arguments, &settings)?;
    let address = ServerAddress::on_loopback(port);
    front.wait_until_ready(&address).await?;
    Ok((EngineProcesses { workers: Vec::new(), front, settings }, address, database))
}

impl EngineProcesses {
    /// Starts `count` more workers and returns the addresses of their metrics.
    pub(super) async fn start_workers(
        &mut self,
        start: &EngineStart,
        count: usize,
    ) -> BenchResult<Vec<ServerAddress>> {
        let role = match start.hands {
            ActionPerformers::Engine => "worker",
            ActionPerformers::Function | ActionPerformers::Outside => "bench-worker",
        };
        let mut probes = Vec::new();
        for _ in 0..count {
            let port = port::free_port()?;
            let name = format!("worker {}", self.workers.len() + 1);
            let mut settings = self.settings.clone();
            settings.push(setting_variable("WORKER__LISTEN", &format!("127.0.0.1:{port}")));
            self.workers.push(EngineChild::start(&start.guard, &start.binary, &name, &[role], &settings)?);
            probes.push(ServerAddress::on_loopback(port));
        }
        for (worker, probe) in self.workers.iter_mut().rev().zip(probes.iter().rev()) {
            worker.wait_until_ready(probe).await?;
        }
        Ok(probes)
    }

    /// Creates a key of the tenant, directly in the store.
    pub(super) async fn create_key(&self, start: &EngineStart, tenant: &str) -> BenchResult<String> {
        let arguments = ["keys", "create", "bench", "--tenant", tenant, "--role", "admin"];
        let mut child = EngineChild::start(&start.guard, &start.binary, "keys", &arguments, &self.settings)?;
        child.wait_for_end().await?;
        let said = child.log_tail();
        let key: Option<String> = said
            .find("ms_")
            .map(|at| said[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect());
        key.ok_or_else(|| BenchError::Wrong(format!("no key was made: {said}")))
    }

    /// Signals each worker by its own process id.
    pub(super) fn signal_workers(&self, signal: &str) -> BenchResult<()> {
        for worker in &self.workers {
            let sent = std::process::Command::new("kill").args([signal, &worker.pid().to_string()]).status();
            let sent =
                sent.map_err(BenchError::machine_error(format!("send {signal} to {}", worker.name())))?;
            if !sent.success() {
                return Err(BenchError::Wrong(format!("{} could not be sent {signal}", worker.name())));
            }
        }
        Ok(())
    }

    pub(super) fn roles(&self) -> Vec<EngineRole> {
        std::iter::once(&self.front)
            .chain(&self.workers)
            .map(|child| EngineRole {
                name: child.name().to_owned(),
                place: RoleLocation::Process(child.pid()),
            })
            .collect()
    }

    pub(super) fn front_process(&self) -> u32 {
        self.front.pid()
    }

    pub(super) fn check_alive(&mut self) -> BenchResult<()> {
        std::iter::once(&mut self.front).chain(&mut self.workers).try_for_each(EngineChild::check_alive)
    }

    pub(super) fn log_tails(&self) -> String {
        std::iter::once(&self.front)
            .chain(&self.workers)
            .map(|child| format!("--- {}\n{}", child.name(), child.log_tail()))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn setting_variable(key: &str, value: &str) -> (String, String) {
    (format!("MILLSTREAM_{key}"), value.to_owned())
}

//! Processes of an engine started here: an ingress and workers, or one embedded engine.

use std::path::PathBuf;

use super::child::{Child, Settings};
use super::port;
use super::subject::{Place, Role, Start};
use crate::error::{BenchError, Result};
use crate::wire::Address;
use crate::workload::Hands;

/// Child processes, killed in this order when dropped: the workers before the ingress.
#[derive(Debug)]
pub(super) struct Processes {
    workers: Vec<Child>,
    front: Child,
    settings: Settings,
}

/// Common settings of the processes of a fleet.
pub(super) fn settings(start: &Start, database_url: &str, redis_url: &str, redis_prefix: &str) -> Settings {
    let mut settings = start.settings.clone();
    settings.extend([
        setting("DATABASE_URL", database_url),
        setting("REDIS_URL", redis_url),
        setting("REDIS__PREFIX", redis_prefix),
        setting("HTTP_ALLOW", "127.0.0.0/8"),
        setting("EXECUTOR_ALLOW", "127.0.0.0/8"),
    ]);
    settings
}

/// Migrates the tables, then starts the ingress.
pub(super) async fn start_ingress(start: &Start, settings: Settings) -> Result<(Processes, Address)> {
    let mut migrate = Child::start(&start.guard, &start.binary, "migrate", &["migrate"], &settings)?;
    migrate.finished().await?;
    let port = port::free()?;
    let listen = format!("127.0.0.1:{port}");
    let arguments = ["ingress", "--listen", &listen];
    let mut front = Child::start(&start.guard, &start.binary, "ingress", &arguments, &settings)?;
    let address = Address::local(port);
    front.ready(&address).await?;
    Ok((Processes { workers: Vec::new(), front, settings }, address))
}

/// Starts `millstream dev` in a directory of its own; returns its database file too.
pub(super) async fn start_embedded(start: &Start, loops: usize) -> Result<(Processes, Address, PathBuf)> {
    let (port, settings) = (port::free()?, start.settings.clone());
    let (listen, loops, dir) =
        (format!("127.0.0.1:{port}"), loops.to_string(), start.directory().display().to_string());
    let database = start.database_file();
    let url = format!("sqlite://{}", database.display());
    let role = match start.hands {
        Hands::Engine => "dev",
        Hands::Function | Hands::Outside => "bench-dev",
    };
    let arguments = [role, "--dir", &dir, "--listen", &listen, "--workers", &loops, "--database-url", &url];
    let mut front = Child::start(&start.guard, &start.binary, "embedded", &arguments, &settings)?;
    let address = Address::local(port);
    front.ready(&address).await?;
    Ok((Processes { workers: Vec::new(), front, settings }, address, database))
}

impl Processes {
    /// Starts `count` more workers and returns the addresses of their metrics.
    pub(super) async fn start_workers(&mut self, start: &Start, count: usize) -> Result<Vec<Address>> {
        let role = match start.hands {
            Hands::Engine => "worker",
            Hands::Function | Hands::Outside => "bench-worker",
        };
        let mut probes = Vec::new();
        for _ in 0..count {
            let port = port::free()?;
            let name = format!("worker {}", self.workers.len() + 1);
            let mut settings = self.settings.clone();
            settings.push(setting("WORKER__LISTEN", &format!("127.0.0.1:{port}")));
            self.workers.push(Child::start(&start.guard, &start.binary, &name, &[role], &settings)?);
            probes.push(Address::local(port));
        }
        for (worker, probe) in self.workers.iter_mut().rev().zip(probes.iter().rev()) {
            worker.ready(probe).await?;
        }
        Ok(probes)
    }

    /// Creates a key of the tenant, directly in the store.
    pub(super) async fn create_key(&self, start: &Start, tenant: &str) -> Result<String> {
        let arguments = ["keys", "create", "bench", "--tenant", tenant, "--role", "admin"];
        let mut child = Child::start(&start.guard, &start.binary, "keys", &arguments, &self.settings)?;
        child.finished().await?;
        let said = child.log_tail();
        let key: Option<String> = said
            .find("ms_")
            .map(|at| said[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect());
        key.ok_or_else(|| BenchError::Wrong(format!("no key was made: {said}")))
    }

    /// Signals each worker by its own process id.
    pub(super) fn signal_workers(&self, signal: &str) -> Result<()> {
        for worker in &self.workers {
            let sent = std::process::Command::new("kill").args([signal, &worker.pid().to_string()]).status();
            let sent = sent.map_err(BenchError::machine(format!("send {signal} to {}", worker.name())))?;
            if !sent.success() {
                return Err(BenchError::Wrong(format!("{} could not be sent {signal}", worker.name())));
            }
        }
        Ok(())
    }

    pub(super) fn roles(&self) -> Vec<Role> {
        std::iter::once(&self.front)
            .chain(&self.workers)
            .map(|child| Role { name: child.name().to_owned(), place: Place::Process(child.pid()) })
            .collect()
    }

    pub(super) fn front_process(&self) -> u32 {
        self.front.pid()
    }

    pub(super) fn alive(&mut self) -> Result<()> {
        std::iter::once(&mut self.front).chain(&mut self.workers).try_for_each(Child::alive)
    }

    pub(super) fn logs(&self) -> String {
        std::iter::once(&self.front)
            .chain(&self.workers)
            .map(|child| format!("--- {}\n{}", child.name(), child.log_tail()))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn setting(key: &str, value: &str) -> (String, String) {
    (format!("MILLSTREAM_{key}"), value.to_owned())
}

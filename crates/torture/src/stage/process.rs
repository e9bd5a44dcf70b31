//! One process of the fleet, the network around it, and its exits.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use millstream_testkit::Proxy;
use millstream_testkit::daemon::Daemon;
use millstream_testkit::guard::Ending;
use nix::sys::signal::Signal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Worker,
    Ingress,
}

#[derive(Debug)]
pub struct Process {
    pub name: String,
    pub role: Role,
    /// Between it and Postgres.
    pub postgres: Proxy,
    /// Between it and Redis.
    pub redis: Proxy,
    /// Between the clients and an ingress.
    pub front: Option<Proxy>,
    /// Port of its health endpoint, and of everything else at an ingress.
    pub port: u16,
    /// Locked during a fault on this process.
    pub busy: tokio::sync::Mutex<()>,
    life: Mutex<Life>,
    output: PathBuf,
    environment: Vec<(String, String)>,
    binary: PathBuf,
}

#[derive(Debug, Default)]
struct Life {
    daemon: Option<Daemon>,
    /// Whether the run requested its end.
    ended_by_us: bool,
    started: Option<Instant>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub status: ExitStatus,
    pub by_us: bool,
    pub after: std::time::Duration,
}

/// Parts of a process.
#[derive(Debug)]
pub(super) struct Parts {
    pub name: String,
    pub role: Role,
    pub postgres: Proxy,
    pub redis: Proxy,
    pub front: Option<Proxy>,
    pub port: u16,
    pub output: PathBuf,
    pub environment: Vec<(String, String)>,
    pub binary: PathBuf,
}

impl Process {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { name, role, postgres, redis, front, port, output, environment, binary } = parts;
        let (busy, life) = (tokio::sync::Mutex::new(()), Mutex::default());
        Self { name, role, postgres, redis, front, port, busy, life, output, environment, binary }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it; the previous one must have ended.
    pub fn start(&self) {
        let mut life = self.life();
        let daemon = Daemon::start(&self.name, self.command(), &self.output, Ending::Kill);
        *life = Life { daemon: Some(daemon), ended_by_us: false, started: Some(Instant::now()) };
    }

    /// The binary in this process's role and with its settings.
    pub fn command(&self) -> Command {
        let mut command = bare(&self.binary);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        match self.role {
            Role::Worker => command.arg("worker"),
            Role::Ingress => command.arg("ingress").args(["--listen", &format!("127.0.0.1:{}", self.port)]),
        };
        command
    }

    /// How it ended, once per end.
    pub fn take_end(&self) -> Option<Ended> {
        let mut life = self.life();
        let status = life.daemon.as_mut()?.exited()?;
        life.daemon = None;
        let after = life.started.map(|started| started.elapsed()).unwrap_or_default();
        Some(Ended { status, by_us: life.ended_by_us, after })
    }

    pub fn is_running(&self) -> bool {
        self.life().daemon.is_some()
    }

    pub fn pid(&self) -> Option<u32> {
        self.life().daemon.as_ref().map(Daemon::pid)
    }

    /// SIGKILL; gone when this returns. The supervisor restarts it. False if it was not running.
    pub fn kill(&self) -> bool {
        let mut life = self.life();
        life.ended_by_us = true;
        match &mut life.daemon {
            Some(daemon) => {
                daemon.kill();
                true
            }
            None => false,
        }
    }

    /// Sends a signal that does not end it.
    pub fn signal(&self, signal: Signal) {
        if let Some(daemon) = &mut self.life().daemon {
            daemon.signal(signal);
        }
    }

    /// SIGTERM: it drains and ends.
    pub fn ask_to_end(&self) {
        let mut life = self.life();
        life.ended_by_us = true;
        if let Some(daemon) = &mut life.daemon {
            daemon.signal(Signal::SIGTERM);
        }
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        std::fs::read(&self.output)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}

/// The binary without settings of the caller.
pub(crate) fn bare(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MILLSTREAM_") {
            command.env_remove(name);
        }
    }
    command
}

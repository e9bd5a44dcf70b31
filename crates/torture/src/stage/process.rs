//! One process of the fleet, the network around it, and its exits.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use millstream_testkit::TestProxy;
use millstream_testkit::daemon::TestProcess;
use millstream_testkit::guard::ProcessEnding;
use nix::sys::signal::Signal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageRole {
    Worker,
    Ingress,
}

#[derive(Debug)]
pub struct StageProcess {
    pub name: String,
    pub role: StageRole,
    /// Between it and Postgres.
    pub postgres: TestProxy,
    /// Between it and Redis.
    pub redis: TestProxy,
    /// Between the clients and an ingress.
    pub front: Option<TestProxy>,
    /// Port of its health endpoint, and of everything else at an ingress.
    pub port: u16,
    /// Locked during a fault on this process.
    pub busy: tokio::sync::Mutex<()>,
    life: Mutex<ProcessLife>,
    output: PathBuf,
    environment: Vec<(String, String)>,
    binary: PathBuf,
}

#[derive(Debug, Default)]
struct ProcessLife {
    daemon: Option<TestProcess>,
    /// Whether the run requested its end.
    ended_by_us: bool,
    started: Option<Instant>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedProcess {
    pub status: ExitStatus,
    pub by_us: bool,
    pub after: std::time::Duration,
}

/// Parts of a process.
#[derive(Debug)]
pub(super) struct ProcessParts {
    pub name: String,
    pub role: StageRole,
    pub postgres: TestProxy,
    pub redis: TestProxy,
    pub front: Option<TestProxy>,
    pub port: u16,
    pub output: PathBuf,
    pub environment: Vec<(String, String)>,
    pub binary: PathBuf,
}

impl StageProcess {
    pub(super) fn new(parts: ProcessParts) -> Self {
        let ProcessParts { name, role, postgres, redis, front, port, output, environment, binary } = parts;
        let (busy, life) = (tokio::sync::Mutex::new(()), Mutex::default());
        Self { name, role, postgres, redis, front, port, busy, life, output, environment, binary }
    }

    fn life(&self) -> MutexGuard<'_, ProcessLife> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it; the previous one must have ended.
    pub fn start(&self) {
        let mut life = self.life();
        let daemon = TestProcess::start(&self.name, self.command(), &self.output, ProcessEnding::Kill);
        *life = ProcessLife { daemon: Some(daemon), ended_by_us: false, started: Some(Instant::now()) };
    }

    /// The binary in this process's role and with its settings.
    pub fn command(&self) -> Command {
        let mut command = bare_command(&self.binary);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        match self.role {
            StageRole::Worker => command.arg("worker"),
            StageRole::Ingress => {
                command.arg("ingress").args(["--listen", &format!("127.0.0.1:{}", self.port)])
            }
        };
        command
    }

    /// How it ended, once per end.
    pub fn take_end(&self) -> Option<EndedProcess> {
        let mut life = self.life();
        let status = life.daemon.as_mut()?.exit_status()?;
        life.daemon = None;
        let after = life.started.map(|started| started.elapsed()).unwrap_or_default();
        Some(EndedProcess { status, by_us: life.ended_by_us, after })
    }

    pub fn is_running(&self) -> bool {
        self.life().daemon.is_some()
    }

    pub fn pid(&self) -> Option<u32> {
        self.life().daemon.as_ref().map(TestProcess::pid)
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
pub(crate) fn bare_command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MILLSTREAM_") {
            command.env_remove(name);
        }
    }
    command
}

//! Supervisor: restarts every process that ends, and records every end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::process::{EndedProcess, StageProcess};
use super::services::TortureStage;

const GLANCE: Duration = Duration::from_millis(50);
/// Minimum pause before the restart of a process that ends at once.
const PAUSE: Duration = Duration::from_millis(250);

/// The end of a process.
#[derive(Debug, Clone)]
pub struct ProcessDeath {
    pub process: String,
    pub how: String,
    pub cause: DeathCause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeathCause {
    /// The run killed it or asked it to end.
    Us,
    /// It ended at a crash point, as a test requested.
    Drill,
    /// It could not start or continue and reported that: the process manager retries.
    GaveUp,
    /// It panicked, or was killed by another process.
    Itself,
}

#[derive(Debug)]
pub struct ProcessSupervisor {
    deaths: Arc<Mutex<Vec<ProcessDeath>>>,
    task: JoinHandle<()>,
}

impl ProcessSupervisor {
    pub fn supervise_stage(stage: Arc<TortureStage>) -> Self {
        let deaths = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&deaths);
        let task = tokio::spawn(async move {
            loop {
                for process in stage.processes() {
                    if let Some(ended) = process.take_end() {
                        let death = describe_death(process, ended);
                        seen.lock().unwrap_or_else(PoisonError::into_inner).push(death);
                        if ended.after < PAUSE {
                            tokio::time::sleep(PAUSE).await;
                        }
                        process.start();
                    }
                }
                tokio::time::sleep(GLANCE).await;
            }
        });
        Self { deaths, task }
    }

    pub fn deaths(&self) -> Vec<ProcessDeath> {
        self.deaths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ProcessSupervisor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn describe_death(process: &StageProcess, ended: EndedProcess) -> ProcessDeath {
    let log = process.log();
    let last = log.lines().last().unwrap_or_default();
    let cause = match (ended.by_us, ended.status.code()) {
        (true, _) => DeathCause::Us,
        (false, _) if last.contains("fault injection: exiting") => DeathCause::Drill,
        (false, Some(_)) if last.starts_with("error: ") => DeathCause::GaveUp,
        (false, _) => DeathCause::Itself,
    };
    ProcessDeath { process: process.name.clone(), how: format!("{}; last line: {last}", ended.status), cause }
}

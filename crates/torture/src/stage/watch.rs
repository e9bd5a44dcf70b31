//! Supervisor: restarts every process that ends, and records every end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::process::{Ended, Process};
use super::services::Stage;

const GLANCE: Duration = Duration::from_millis(50);
/// Minimum pause before the restart of a process that ends at once.
const PAUSE: Duration = Duration::from_millis(250);

/// The end of a process.
#[derive(Debug, Clone)]
pub struct Death {
    pub process: String,
    pub how: String,
    pub cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
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
pub struct Supervisor {
    deaths: Arc<Mutex<Vec<Death>>>,
    task: JoinHandle<()>,
}

impl Supervisor {
    pub fn over(stage: Arc<Stage>) -> Self {
        let deaths = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&deaths);
        let task = tokio::spawn(async move {
            loop {
                for process in stage.processes() {
                    if let Some(ended) = process.take_end() {
                        let death = describe(process, ended);
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

    pub fn deaths(&self) -> Vec<Death> {
        self.deaths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn describe(process: &Process, ended: Ended) -> Death {
    let log = process.log();
    let last = log.lines().last().unwrap_or_default();
    let cause = match (ended.by_us, ended.status.code()) {
        (true, _) => Cause::Us,
        (false, _) if last.contains("fault injection: exiting") => Cause::Drill,
        (false, Some(_)) if last.starts_with("error: ") => Cause::GaveUp,
        (false, _) => Cause::Itself,
    };
    Death { process: process.name.clone(), how: format!("{}; last line: {last}", ended.status), cause }
}

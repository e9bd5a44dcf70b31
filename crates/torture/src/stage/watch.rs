//! What a process manager does: whoever ends is started again. It remembers every end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::process::{Ended, Process};
use super::services::Stage;

const GLANCE: Duration = Duration::from_millis(50);
/// A process that ends at once is not started faster than this.
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
    /// We killed it or asked it to end.
    Us,
    /// It said that it would, because a test told it to.
    Drill,
    /// It could not start or go on and said so: the process manager tries again.
    GaveUp,
    /// It panicked, or was killed by somebody else.
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
        (false, _) if last.contains("dying on purpose") => Cause::Drill,
        (false, Some(_)) if last.starts_with("error: ") => Cause::GaveUp,
        (false, _) => Cause::Itself,
    };
    Death { process: process.name.clone(), how: format!("{}; last line: {last}", ended.status), cause }
}

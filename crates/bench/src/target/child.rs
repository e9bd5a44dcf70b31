//! One process of the engine under test: started, waited for, stopped by its own process id.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::guard::CleanupGuard;
use crate::error::{BenchError, BenchResult};
use crate::wire::{BenchConnection, ServerAddress};

const READY: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Maximum length of a log in an error.
const LOG_TAIL: usize = 2000;

/// A process that is killed when dropped, without a drain: its data is private and about to be removed.
#[derive(Debug)]
pub(super) struct EngineChild {
    name: String,
    process: Process,
    log: PathBuf,
    guard: Arc<CleanupGuard>,
}

/// Settings of a process, as environment variables.
pub(crate) type ChildSettings = Vec<(String, String)>;

impl EngineChild {
    pub(super) fn start(
        guard: &Arc<CleanupGuard>,
        binary: &Path,
        name: &str,
        arguments: &[&str],
        settings: &ChildSettings,
    ) -> BenchResult<Self> {
        let log = guard.directory().join(format!("{name}.log"));
        let file =
            File::create(&log).map_err(BenchError::machine_error(format!("write {}", log.display())))?;
        let copy = file.try_clone().map_err(BenchError::machine_error("share a log file"))?;
        let process = Command::new(binary)
            .args(arguments)
            .envs(settings.iter().map(|(key, value)| (key, value)))
            .current_dir(guard.directory())
            .stdin(Stdio::null())
            .stdout(copy)
            .stderr(file)
            // A process group of its own: Ctrl-C reaches only this process, which controls the order of
            // stopping.
            .process_group(0)
            .spawn()
            .map_err(|error| start_failure(binary, name, error))?;
        let child = Self { name: name.to_owned(), process, log, guard: guard.clone() };
        guard.watch_process(child.pid())?;
        Ok(child)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits for 200 at `/readyz`.
    pub(super) async fn wait_until_ready(&mut self, address: &ServerAddress) -> BenchResult<()> {
        let deadline = Instant::now() + READY;
        loop {
            self.check_alive()?;
            let said = match BenchConnection::to_server(address).get("/readyz").await {
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            };
            if Instant::now() > deadline {
                return Err(BenchError::Wrong(format!("{} is not ready after {READY:?}: {said}", self.name)));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Fails with the end of its log when the process has ended.
    pub(super) fn check_alive(&mut self) -> BenchResult<()> {
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(BenchError::Wrong(format!("{} ended with {status}:\n{}", self.name, self.log_tail())))
            }
            Err(error) => Err(BenchError::Machine { doing: format!("ask for {}", self.name), source: error }),
        }
    }

    /// Waits for a process that ends by itself.
    pub(super) async fn wait_for_end(&mut self) -> BenchResult<()> {
        loop {
            match self.process.try_wait() {
                Ok(None) => tokio::time::sleep(LOOK_EVERY).await,
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(_)) | Err(_) => return self.check_alive(),
            }
        }
    }

    pub(super) fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_TAIL)..]).into_owned();
        if text.is_empty() { "(empty log)".to_owned() } else { text }
    }
}

impl Drop for EngineChild {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.guard.forget_process(self.process.id());
    }
}

fn start_failure(binary: &Path, name: &str, error: io::Error) -> BenchError {
    if error.kind() != io::ErrorKind::NotFound {
        return BenchError::machine_error(format!("start {} for {name}", binary.display()))(error);
    }
    BenchError::Usage(format!(
        "the engine to measure is missing: there is no program {}. --binary FILE names it; \
         `cargo build --release -p millstream` builds it",
        binary.display()
    ))
}

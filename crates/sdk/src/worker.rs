//! Your own worker: the engine's roles with your actions, configured by the settings.
//!
//! On PostgreSQL and Redis it is one worker of a fleet. On SQLite, or without settings, it is the whole
//! engine in this process.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use millstream_runtime::config::{self, Config, ConfigFlags};
use millstream_runtime::engine::EmbeddedEngine;
use millstream_runtime::{fault_injection, signals, telemetry, worker};
use millstream_worker::PerformCalls;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::action::{ActionContext, ActionError, ActionRegistry, erase_action};
use crate::running_worker::{RunningWorker, StartedRole};
use crate::worker_error::WorkerError;

/// A worker that performs your actions.
///
/// ```no_run
/// use millstream_sdk::{ActionContext, ActionError, Worker};
///
/// #[tokio::main]
/// async fn main() -> Result<(), millstream_sdk::WorkerError> {
///     Worker::builder()
///         .action("greet", async |_: ActionContext, name: String| Ok::<_, ActionError>(format!("hello {name}")))
///         .run()
///         .await
/// }
/// ```
#[derive(Debug)]
pub struct Worker(());

type ConfigChange = Box<dyn FnOnce(&mut Config) + Send>;

/// Builds and runs a [`Worker`].
#[must_use = "nothing runs before `run`"]
pub struct WorkerBuilder {
    actions: ActionRegistry,
    /// The first error in the actions.
    wrong: Option<String>,
    file: Option<PathBuf>,
    changes: Vec<ConfigChange>,
}

impl Worker {
    pub fn builder() -> WorkerBuilder {
        WorkerBuilder { actions: ActionRegistry::default(), wrong: None, file: None, changes: Vec::new() }
    }
}

impl WorkerBuilder {
    /// Registers the function behind `call: NAME` in a definition. The function takes an [`ActionContext`]
    /// and an input of any type that can be read from JSON; it may be a closure over anything that can be
    /// shared between threads.
    pub fn action<F, I, O, Fut>(mut self, name: &str, action: F) -> Self
    where
        F: Fn(ActionContext, I) -> Fut + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = Result<O, ActionError>> + Send + 'static,
    {
        if let Err(wrong) = self.actions.add_action(name, erase_action(action)) {
            self.wrong.get_or_insert(wrong);
        }
        self
    }

    /// A settings file, as `--config` of the binary. By default: `MILLSTREAM_CONFIG`, if that is set.
    pub fn config(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Changes settings, after the file and the environment were read. [`crate::config`] has their types.
    pub fn configure(mut self, change: impl FnOnce(&mut Config) + Send + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// The address of an embedded engine; port 0 is any free one.
    pub fn listen(self, address: SocketAddr) -> Self {
        self.configure(move |config| config.listen = address.into())
    }

    /// Runs an embedded engine in this directory, regardless of any database settings.
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        self.configure(move |config| {
            config.database_url = format!("sqlite://{}", directory.join("millstream.db").display());
            config.dev.dir = directory;
        })
    }

    /// Runs until SIGTERM, SIGINT or SIGHUP, then drains: the work in hand is finished or handed back. A
    /// second signal ends the process at once.
    pub async fn run(self) -> Result<(), WorkerError> {
        let names: Vec<String> = self.actions.action_names().iter().map(ToString::to_string).collect();
        let running = self.start().await?;
        if let Some(url) = running.url() {
            eprintln!("millstream is ready on {url}\n  actions  {}\n  stop     Ctrl-C\n", names.join(", "));
        }
        let shutdown = signals::shutdown_token()?;
        running.run_until(shutdown).await
    }

    /// Runs until the token is cancelled, then drains. Signals are left to the process.
    pub async fn run_until(self, shutdown: CancellationToken) -> Result<(), WorkerError> {
        self.start().await?.run_until(shutdown).await
    }

    /// Starts and returns the running worker: for tests, and for processes with other tasks.
    pub async fn start(self) -> Result<RunningWorker, WorkerError> {
        if let Some(wrong) = self.wrong {
            return Err(WorkerError::from(anyhow::anyhow!(wrong)));
        }
        // The process may already have installed a provider, which then remains.
        let _ = rustls::crypto::ring::default_provider().install_default();
        fault_injection::plant_bug()?;
        let mut config = config::load_for_process(self.file.as_deref(), &ConfigFlags::default())?;
        for change in self.changes {
            change(&mut config);
        }
        telemetry::start_logging(&config)?;
        let metrics = telemetry::embedded_metrics();
        let calls: Option<Arc<dyn PerformCalls>> = Some(Arc::new(self.actions));
        let key = config.key.clone();
        let part = if config.database_url.starts_with("postgres") {
            StartedRole::Fleet(Box::new(worker::open_worker(&config, calls).await?), metrics)
        } else {
            StartedRole::Engine(Box::new(EmbeddedEngine::start(config, calls, metrics).await?))
        };
        Ok(RunningWorker::start_role(part, key))
    }
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("actions", &self.actions)
            .field("config", &self.file)
            .finish_non_exhaustive()
    }
}

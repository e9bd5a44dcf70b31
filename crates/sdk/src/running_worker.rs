//! A worker that runs beside the other tasks of its process.

use std::fmt;
use std::net::SocketAddr;

use millstream_runtime::engine::EmbeddedEngine;
use millstream_runtime::telemetry::MetricsText;
use millstream_runtime::worker::WorkerProcess;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, ClientError};
use crate::worker_error::WorkerError;

/// A running worker. Dropping it stops it without waiting; [`stop`](RunningWorker::stop) waits.
pub struct RunningWorker {
    address: Option<SocketAddr>,
    url: Option<String>,
    key: String,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

/// The started role.
pub(crate) enum StartedRole {
    Engine(Box<EmbeddedEngine>),
    Fleet(Box<WorkerProcess>, MetricsText),
}

impl RunningWorker {
    pub(crate) fn start_role(part: StartedRole, key: String) -> Self {
        let shutdown = CancellationToken::new();
        let told = shutdown.clone();
        let (address, url, task) = match part {
            StartedRole::Engine(engine) => {
                let (address, url) = (engine.addresses.first().copied(), Some(engine.url.clone()));
                (address, url, tokio::spawn(engine.run(told)))
            }
            StartedRole::Fleet(worker, metrics) => (None, None, tokio::spawn(worker.run(metrics, told))),
        };
        Self { address, url, key, shutdown, task }
    }

    /// The address of an embedded engine. A worker of a fleet has no listener.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The same as a URL for clients: with TLS when it listens with TLS alone.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// A client of this engine. Fails for a worker of a fleet, which does not know the fleet's addresses.
    pub fn client(&self) -> Result<Client, ClientError> {
        let Some(url) = &self.url else {
            return Err(ClientError::Unsendable(
                "a worker of a fleet has no listener; give the server's address".to_owned(),
            ));
        };
        Client::builder(url.clone()).key(&self.key).build()
    }

    /// Drains: the work in hand is finished or handed back.
    pub async fn stop(self) -> Result<(), WorkerError> {
        self.shutdown.cancel();
        self.until_ended().await
    }

    /// Runs until the token is cancelled, or a part of it ends by itself, which is an error.
    pub async fn run_until(mut self, shutdown: CancellationToken) -> Result<(), WorkerError> {
        tokio::select! {
            () = shutdown.cancelled() => self.stop().await,
            ended = &mut self.task => role_result(ended),
        }
    }

    async fn until_ended(mut self) -> Result<(), WorkerError> {
        role_result((&mut self.task).await)
    }
}

fn role_result(ended: Result<anyhow::Result<()>, tokio::task::JoinError>) -> Result<(), WorkerError> {
    match ended {
        Ok(ended) => Ok(ended?),
        Err(panicked) => Err(WorkerError::from(anyhow::Error::from(panicked))),
    }
}

/// Without the key: debug output ends up in logs.
impl fmt::Debug for RunningWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

//! Health: workers, liveness and readiness.

use super::answer::{Health, Readiness, WorkerView};
use super::connect::Client;
use super::error::ClientError;
use super::listing::List;
use super::transport::Ask;

impl Client {
    /// Workers with a recent heartbeat.
    pub fn workers(&self) -> List<WorkerView> {
        List::new(self, Ask::get("/v1/workers"))
    }

    /// Liveness: the process answers.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.ask(&Ask::get("/healthz")).await?.json()
    }

    /// Readiness: the store answers and no shutdown has begun. Without retries, because "not ready" is a
    /// valid answer here.
    pub async fn ready(&self) -> Result<Readiness, ClientError> {
        self.ask_once(&Ask::get("/readyz")).await?.json()
    }
}

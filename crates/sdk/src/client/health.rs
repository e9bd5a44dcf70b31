//! Who is up.

use super::answer::{Health, Readiness, WorkerView};
use super::connect::Client;
use super::error::ClientError;
use super::listing::List;
use super::transport::Ask;

impl Client {
    /// Workers that were heard of lately.
    pub fn workers(&self) -> List<WorkerView> {
        List::new(self, Ask::get("/v1/workers"))
    }

    /// Whether the process answers.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.ask(&Ask::get("/healthz")).await?.json()
    }

    /// Whether the process can do its job: its store answers and no shutdown has begun. Asked once, because "not yet"
    /// is an answer here.
    pub async fn ready(&self) -> Result<Readiness, ClientError> {
        self.ask_once(&Ask::get("/readyz")).await?.json()
    }
}

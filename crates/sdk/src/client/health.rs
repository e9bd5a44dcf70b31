//! Health: workers, liveness and readiness.

use millstream_api::status::{Health, Readiness, WorkerView};

use super::connect::Client;
use super::listing::PagedList;
use super::transport::ApiRequest;
use crate::client_error::ClientError;

impl Client {
    /// Workers with a recent heartbeat.
    pub fn workers(&self) -> PagedList<WorkerView> {
        PagedList::new(self, ApiRequest::get("/v1/workers"))
    }

    /// Liveness: the process answers.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.send_request(&ApiRequest::get("/healthz")).await?.json()
    }

    /// Readiness: the store answers and no shutdown has begun. Without retries, because "not ready" is a
    /// valid answer here.
    pub async fn ready(&self) -> Result<Readiness, ClientError> {
        self.send_request_once(&ApiRequest::get("/readyz")).await?.json()
    }
}

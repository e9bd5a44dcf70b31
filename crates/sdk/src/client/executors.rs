//! Executors, which perform graph nodes: registration and lists.

use millstream_api::executors::{ExecutorRegistration, ExecutorView, NewExecutor};

use super::connect::Client;
use super::json;
use super::listing::PagedList;
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

impl Client {
    /// Registers an executor, and is also its heartbeat: call it periodically. The last call counts.
    pub async fn register_executor(
        &self,
        executor: &NewExecutor,
    ) -> Result<ExecutorRegistration, ClientError> {
        let ask =
            ApiRequest::post("/v1/executors", RepeatPolicy::Always).with_json(json::json_body(executor)?);
        self.send_request(&ask).await?.json()
    }

    /// Executors with a recent heartbeat, by name.
    pub fn executors(&self) -> PagedList<ExecutorView> {
        PagedList::new(self, ApiRequest::get("/v1/executors"))
    }

    /// Deregisters an executor: it gets no further nodes, and finishes those that it has.
    pub async fn retire_executor(&self, name: &str) -> Result<(), ClientError> {
        let path = format!("/v1/executors/{}/retire", path_segment(name));
        self.send_request(&ApiRequest::post(path, RepeatPolicy::Always).with_json(b"{}".to_vec()))
            .await
            .map(|_| ())
    }
}

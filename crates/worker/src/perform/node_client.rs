//! The interface to the client of executors.

use millstream_rpc::client::{CallFailure, ExecutorTarget};
use millstream_rpc::proto::{ExecuteNodeRequest, ExecuteNodeResponse};
use tokio::time::Instant;

/// Calls executors.
#[async_trait::async_trait]
pub trait PerformNodes: Send + Sync + std::fmt::Debug {
    /// Calls an executor once. Dropping the future cancels the call at the executor.
    async fn execute_node(
        &self,
        executor: &ExecutorTarget,
        request: ExecuteNodeRequest,
        deadline: Instant,
    ) -> std::result::Result<ExecuteNodeResponse, CallFailure>;
}

#[async_trait::async_trait]
impl PerformNodes for millstream_rpc::client::ExecutorClients {
    async fn execute_node(
        &self,
        executor: &ExecutorTarget,
        request: ExecuteNodeRequest,
        deadline: Instant,
    ) -> std::result::Result<ExecuteNodeResponse, CallFailure> {
        self.execute_node(executor, request, deadline).await
    }
}

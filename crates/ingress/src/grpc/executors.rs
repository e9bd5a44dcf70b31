//! `ExecutorService`: registration and listing of executors.

use std::sync::Arc;

use millstream_model::id::Name;
use millstream_rpc::length::length_out;
use millstream_rpc::proto::executor_service_server::ExecutorService;
use millstream_rpc::proto::{
    ListExecutorsRequest, ListExecutorsResponse, RegisterExecutorRequest, RegisterExecutorResponse,
    RetireExecutorRequest, RetireExecutorResponse,
};
use millstream_rpc::{read, refusal, write};
use tonic::{Request, Response, Status};

use super::call::begin_call;
use super::status::{invalid_field, status_of_refusal};
use crate::graphs::executors;
use crate::state::IngressState;

pub(super) struct GrpcExecutorService(pub(super) Arc<IngressState>);

#[tonic::async_trait]
impl ExecutorService for GrpcExecutorService {
    async fn register_executor(
        &self,
        request: Request<RegisterExecutorRequest>,
    ) -> Result<Response<RegisterExecutorResponse>, Status> {
        let call = begin_call(&request)?;
        let given = request.into_inner().executor.ok_or_else(|| invalid_field("executor", "is required"))?;
        let executor = read::read_executor(given, &call.caller.tenant, &self.0.options.executor_networks)
            .map_err(|problems| refusal::invalid_argument(&problems))?;
        executors::register_executor(&self.0.graphs, executor).await.map_err(status_of_refusal)?;
        Ok(Response::new(RegisterExecutorResponse { beat_every: Some(length_out(executors::BEAT_EVERY)) }))
    }

    async fn retire_executor(
        &self,
        request: Request<RetireExecutorRequest>,
    ) -> Result<Response<RetireExecutorResponse>, Status> {
        let call = begin_call(&request)?;
        let name =
            Name::parse(&request.get_ref().name).map_err(|error| invalid_field("name", error.to_string()))?;
        executors::retire_executor(&self.0.graphs, &call.caller.tenant, &name)
            .await
            .map_err(status_of_refusal)?;
        Ok(Response::new(RetireExecutorResponse {}))
    }

    async fn list_executors(
        &self,
        request: Request<ListExecutorsRequest>,
    ) -> Result<Response<ListExecutorsResponse>, Status> {
        let call = begin_call(&request)?;
        let found = executors::list_executors(&self.0.graphs, &call.caller.tenant)
            .await
            .map_err(status_of_refusal)?;
        let executors =
            found.iter().map(|(executor, seen_at)| write::encode_executor(executor, *seen_at)).collect();
        Ok(Response::new(ListExecutorsResponse { executors }))
    }
}

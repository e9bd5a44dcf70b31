//! `grpc.health.v1.Health`: the same answer as `/readyz`, for all services at once.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_rpc::proto::device_service_server::SERVICE_NAME as DEVICES;
use millstream_rpc::proto::executor_service_server::SERVICE_NAME as EXECUTORS;
use millstream_rpc::proto::task_service_server::SERVICE_NAME as TASKS;
use millstream_rpc::proto::workflow_service_server::SERVICE_NAME as WORKFLOWS;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::status::status;
use crate::door::Door;
use crate::http::health::is_ready;

pub(super) struct Health(pub(super) Arc<Door>);

/// How often somebody who watches is looked for.
const AGAIN: Duration = Duration::from_secs(1);

#[tonic::async_trait]
impl health_server::Health for Health {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !is_known(&request.get_ref().service) {
            return Err(Status::not_found("there is no such service"));
        }
        Ok(Response::new(shown(serving(&self.0).await)))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        if !is_known(&request.get_ref().service) {
            let unknown = shown(ServingStatus::ServiceUnknown);
            return Ok(Response::new(futures::stream::iter([Ok(unknown)]).boxed()));
        }
        let permit = self.0.gate.tail().map_err(status)?;
        let state = (self.0.clone(), None, permit);
        let statuses = futures::stream::unfold(state, |(door, last, permit)| async move {
            loop {
                if last == Some(ServingStatus::NotServing) && door.draining.is_cancelled() {
                    return None;
                }
                let now = serving(&door).await;
                if last != Some(now) {
                    return Some((Ok(shown(now)), (door, Some(now), permit)));
                }
                tokio::select! {
                    () = tokio::time::sleep(AGAIN) => {}
                    () = door.draining.cancelled() => {}
                }
            }
        });
        Ok(Response::new(statuses.boxed()))
    }
}

/// No name is all of them.
fn is_known(service: &str) -> bool {
    ["", WORKFLOWS, EXECUTORS, TASKS, DEVICES].contains(&service)
}

async fn serving(door: &Door) -> ServingStatus {
    match is_ready(door).await {
        Ok(()) => ServingStatus::Serving,
        Err(_) => ServingStatus::NotServing,
    }
}

fn shown(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

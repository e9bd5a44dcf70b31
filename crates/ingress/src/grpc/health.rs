//! `grpc.health.v1.Health`: the same answer as `/readyz`, for all services at once.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_rpc::proto::device_service_server::SERVICE_NAME as DEVICES;
use millstream_rpc::proto::executor_service_server::SERVICE_NAME as EXECUTORS;
use millstream_rpc::proto::task_service_server::SERVICE_NAME as TASKS;
use millstream_rpc::proto::workflow_service_server::SERVICE_NAME as WORKFLOWS;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::state::IngressState;

pub(super) struct GrpcHealthService(pub(super) Arc<IngressState>);

/// Interval at which a health watch re-checks readiness and disconnection.
const AGAIN: Duration = Duration::from_secs(1);
/// Lifetime of one health watch. Watchers need no key; they reconnect.
const WATCH_LIFE: Duration = Duration::from_secs(600);

#[tonic::async_trait]
impl health_server::Health for GrpcHealthService {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !is_known(&request.get_ref().service) {
            return Err(Status::not_found("there is no such service"));
        }
        Ok(Response::new(encode_status(serving_status(&self.0).await)))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        if !is_known(&request.get_ref().service) {
            let unknown = encode_status(ServingStatus::ServiceUnknown);
            return Ok(Response::new(futures::stream::iter([Ok(unknown)]).boxed()));
        }
        let watch = GrpcHealthWatch { door: self.0.clone(), last: None, until: Instant::now() + WATCH_LIFE };
        let statuses =
            futures::stream::unfold(Some(watch), |watch| async move { watch?.next_status().await });
        Ok(Response::new(statuses.boxed()))
    }
}

/// One health watch: the last status sent, and the end of its lifetime.
struct GrpcHealthWatch {
    door: Arc<IngressState>,
    last: Option<ServingStatus>,
    until: Instant,
}

/// The next message of a watch, and the watch itself unless that was the last one.
type WatchStep = Option<(Result<HealthCheckResponse, Status>, Option<GrpcHealthWatch>)>;

impl GrpcHealthWatch {
    async fn next_status(mut self) -> WatchStep {
        loop {
            if self.last == Some(ServingStatus::NotServing) && self.door.draining.is_cancelled() {
                return None;
            }
            let now = serving_status(&self.door).await;
            if self.last != Some(now) {
                self.last = Some(now);
                return Some((Ok(encode_status(now)), Some(self)));
            }
            if Instant::now() >= self.until {
                return Some((Err(Status::unavailable("the watch has ended; begin another one")), None));
            }
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                () = self.door.draining.cancelled() => {}
            }
        }
    }
}

/// The empty name means all services.
fn is_known(service: &str) -> bool {
    ["", WORKFLOWS, EXECUTORS, TASKS, DEVICES].contains(&service)
}

async fn serving_status(door: &IngressState) -> ServingStatus {
    match door.readiness.check_readiness().await {
        Ok(_) => ServingStatus::Serving,
        Err(_) => ServingStatus::NotServing,
    }
}

fn encode_status(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

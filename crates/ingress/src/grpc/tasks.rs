//! `TaskService`: tasks of definitions for external workers, from the same board as `/v1/tasks`.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{Epoch, Name};
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_rpc::length::time_out;
use millstream_rpc::proto::fail_task_request::Then;
use millstream_rpc::proto::task_service_server::TaskService;
use millstream_rpc::proto::{
    CompleteTaskRequest, CompleteTaskResponse, FailTaskRequest, FailTaskResponse, HeartbeatTaskRequest,
    HeartbeatTaskResponse, LeaseTasksRequest, LeaseTasksResponse, TaskOutcome,
};
use millstream_store::action_store::{Lease, LeaseHeartbeat, LeasePulse, OutcomeDemand};
use tonic::{Request, Response, Status, Streaming};

use super::call::begin_call;
use super::lease;
use super::status::{invalid_field, status_of_refusal};
use crate::auth::TenantCaller;
use crate::state::IngressState;
use crate::tasks::held_tasks::{find_held_task, lease_lost, parse_task_key};
use crate::tasks::outcome::{MAX_MESSAGE, MAX_RESULT, SettledTaskOutcome, settle_task};

pub(super) struct GrpcTaskService(pub(super) Arc<IngressState>);

const PROGRESS_BYTES: usize = 16 * 1024;

#[tonic::async_trait]
impl TaskService for GrpcTaskService {
    type LeaseTasksStream = BoxStream<'static, Result<LeaseTasksResponse, Status>>;

    async fn lease_tasks(
        &self,
        request: Request<Streaming<LeaseTasksRequest>>,
    ) -> Result<Response<Self::LeaseTasksStream>, Status> {
        let call = begin_call(&request)?;
        lease::lease_tasks(self.0.clone(), &call.caller, request.into_inner()).await.map(Response::new)
    }

    async fn heartbeat_task(
        &self,
        request: Request<HeartbeatTaskRequest>,
    ) -> Result<Response<HeartbeatTaskResponse>, Status> {
        let call = begin_call(&request)?;
        let HeartbeatTaskRequest { key, token, progress_json } = request.into_inner();
        let (key, revision) = parse_task_key(&call.caller, &key).map_err(status_of_refusal)?;
        let progress = decode_json(&progress_json, "progress_json", PROGRESS_BYTES)?;
        let token = Epoch(token);
        find_held_task(&self.0.tasks, &key, revision, token).await.map_err(status_of_refusal)?;
        let lease = Lease { key: key.clone(), epoch: token };
        let pulse = self.0.tasks.reports.beat_task(LeaseHeartbeat { lease, progress }).await;
        match pulse.map_err(|error| status_of_refusal(error.into()))? {
            LeasePulse::Held { until, wanted } => Ok(Response::new(HeartbeatTaskResponse {
                lease_until: Some(time_out(until)),
                cancelled: wanted == OutcomeDemand::Cancelled,
            })),
            LeasePulse::Lost => Err(status_of_refusal(lease_lost(&self.0.tasks, &key, token).await)),
        }
    }

    async fn complete_task(
        &self,
        request: Request<CompleteTaskRequest>,
    ) -> Result<Response<CompleteTaskResponse>, Status> {
        let call = begin_call(&request)?;
        let CompleteTaskRequest { key, token, result_json } = request.into_inner();
        let result = decode_json(&result_json, "result_json", MAX_RESULT)?.unwrap_or_else(RawJson::null);
        let attempt = AttemptOutcome::Success { result };
        let (outcome, event) = self.settle_task(&call.caller, &key, token, attempt).await?;
        let event_status = event.as_str().to_owned();
        Ok(Response::new(CompleteTaskResponse { outcome: outcome.into(), event_status }))
    }

    async fn fail_task(
        &self,
        request: Request<FailTaskRequest>,
    ) -> Result<Response<FailTaskResponse>, Status> {
        let call = begin_call(&request)?;
        let given = request.into_inner();
        let (key, token) = (given.key.clone(), given.token);
        let attempt = decode_failure(given)?;
        let (outcome, event) = self.settle_task(&call.caller, &key, token, attempt).await?;
        let event_status = event.as_str().to_owned();
        Ok(Response::new(FailTaskResponse { outcome: outcome.into(), event_status }))
    }
}

impl GrpcTaskService {
    async fn settle_task(
        &self,
        caller: &TenantCaller,
        key: &str,
        token: i64,
        attempt: AttemptOutcome,
    ) -> Result<(TaskOutcome, EventStatus), Status> {
        let (key, revision) = parse_task_key(caller, key).map_err(status_of_refusal)?;
        let held =
            find_held_task(&self.0.tasks, &key, revision, Epoch(token)).await.map_err(status_of_refusal)?;
        let settled = settle_task(&self.0.tasks, held, attempt).await.map_err(status_of_refusal)?;
        let outcome = match settled.outcome {
            SettledTaskOutcome::Completed => TaskOutcome::Completed,
            SettledTaskOutcome::Retried => TaskOutcome::Retried,
            SettledTaskOutcome::Failed => TaskOutcome::Failed,
            SettledTaskOutcome::Incident => TaskOutcome::Incident,
            SettledTaskOutcome::Cancelled => TaskOutcome::Cancelled,
        };
        Ok((outcome, settled.event_status))
    }
}

fn decode_failure(given: FailTaskRequest) -> Result<AttemptOutcome, Status> {
    if given.message.is_empty() {
        return Err(invalid_field("message", "is required"));
    }
    let class = match given.class.as_str() {
        "" => ErrorClass::Failed,
        class => {
            ErrorClass::named(Name::parse(class).map_err(|error| invalid_field("class", error.to_string()))?)
        }
    };
    let message = given.message.chars().take(MAX_MESSAGE).collect();
    let error = ActionFailure { class, message, status: None };
    let retry_after =
        given.retry_after.map(|length| lease::decode_wait(&length, "retry_after")).transpose()?;
    match Then::try_from(given.then) {
        Ok(Then::Unspecified | Then::Retry) => Ok(AttemptOutcome::Transient {
            error,
            retry_after: retry_after.filter(|wait| *wait > Duration::ZERO),
        }),
        Ok(Then::Fail) => Ok(AttemptOutcome::Permanent { error }),
        Ok(Then::Pause) => Ok(AttemptOutcome::Pause { error }),
        Err(_) => Err(invalid_field("then", format!("{} is not known", given.then))),
    }
}

/// The empty string is no value.
fn decode_json(text: &str, field: &str, most: usize) -> Result<Option<RawJson>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.len() > most {
        return Err(invalid_field(field, format!("is {} bytes long, at most {most} are kept", text.len())));
    }
    RawJson::parse(text).map(Some).map_err(|error| invalid_field(field, error.to_string()))
}

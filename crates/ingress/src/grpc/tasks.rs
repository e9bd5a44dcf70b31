//! `TaskService`: tasks of definitions for external workers, from the same board as `/v1/tasks`.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::id::{Epoch, Name};
use millstream_core::raw::RawJson;
use millstream_core::status::EventStatus;
use millstream_rpc::length::time_out;
use millstream_rpc::proto::fail_task_request::Then;
use millstream_rpc::proto::task_service_server::TaskService;
use millstream_rpc::proto::{
    CompleteTaskRequest, CompleteTaskResponse, FailTaskRequest, FailTaskResponse, HeartbeatTaskRequest,
    HeartbeatTaskResponse, LeaseTasksRequest, LeaseTasksResponse, TaskOutcome,
};
use millstream_store::action_store::{Beat, Lease, Pulse, Wanted};
use tonic::{Request, Response, Status, Streaming};

use super::call::begin;
use super::lease;
use super::status::{invalid, status};
use crate::auth::Caller;
use crate::door::Door;
use crate::http::task_outcomes::{Became, MAX_MESSAGE, MAX_RESULT, settle};
use crate::http::tasks::{held, key_of, passed_on};

pub(super) struct Tasks(pub(super) Arc<Door>);

const PROGRESS_BYTES: usize = 16 * 1024;

#[tonic::async_trait]
impl TaskService for Tasks {
    type LeaseTasksStream = BoxStream<'static, Result<LeaseTasksResponse, Status>>;

    async fn lease_tasks(
        &self,
        request: Request<Streaming<LeaseTasksRequest>>,
    ) -> Result<Response<Self::LeaseTasksStream>, Status> {
        let call = begin(&request)?;
        lease::lease(self.0.clone(), &call.caller, request.into_inner()).await.map(Response::new)
    }

    async fn heartbeat_task(
        &self,
        request: Request<HeartbeatTaskRequest>,
    ) -> Result<Response<HeartbeatTaskResponse>, Status> {
        let call = begin(&request)?;
        let HeartbeatTaskRequest { key, token, progress_json } = request.into_inner();
        let (key, revision) = key_of(&call.caller, &key).map_err(status)?;
        let progress = json(&progress_json, "progress_json", PROGRESS_BYTES)?;
        let token = Epoch(token);
        held(&self.0, &key, revision, token).await.map_err(status)?;
        let lease = Lease { key: key.clone(), epoch: token };
        let pulse = self.0.reports.beat(Beat { lease, progress }).await;
        match pulse.map_err(|error| status(error.into()))? {
            Pulse::Held { until, wanted } => Ok(Response::new(HeartbeatTaskResponse {
                lease_until: Some(time_out(until)),
                cancelled: wanted == Wanted::Cancelled,
            })),
            Pulse::Lost => Err(status(passed_on(&self.0, &key, token).await)),
        }
    }

    async fn complete_task(
        &self,
        request: Request<CompleteTaskRequest>,
    ) -> Result<Response<CompleteTaskResponse>, Status> {
        let call = begin(&request)?;
        let CompleteTaskRequest { key, token, result_json } = request.into_inner();
        let result = json(&result_json, "result_json", MAX_RESULT)?.unwrap_or_else(RawJson::null);
        let attempt = Attempt::Success { result };
        let (outcome, event) = self.settle(&call.caller, &key, token, attempt).await?;
        let event_status = event.as_str().to_owned();
        Ok(Response::new(CompleteTaskResponse { outcome: outcome.into(), event_status }))
    }

    async fn fail_task(
        &self,
        request: Request<FailTaskRequest>,
    ) -> Result<Response<FailTaskResponse>, Status> {
        let call = begin(&request)?;
        let given = request.into_inner();
        let (key, token) = (given.key.clone(), given.token);
        let attempt = failure(given)?;
        let (outcome, event) = self.settle(&call.caller, &key, token, attempt).await?;
        let event_status = event.as_str().to_owned();
        Ok(Response::new(FailTaskResponse { outcome: outcome.into(), event_status }))
    }
}

impl Tasks {
    async fn settle(
        &self,
        caller: &Caller,
        key: &str,
        token: i64,
        attempt: Attempt,
    ) -> Result<(TaskOutcome, EventStatus), Status> {
        let (key, revision) = key_of(caller, key).map_err(status)?;
        let held = held(&self.0, &key, revision, Epoch(token)).await.map_err(status)?;
        let settled = settle(&self.0, held, attempt).await.map_err(status)?;
        let outcome = match settled.outcome {
            Became::Completed => TaskOutcome::Completed,
            Became::Retried => TaskOutcome::Retried,
            Became::Failed => TaskOutcome::Failed,
            Became::Incident => TaskOutcome::Incident,
            Became::Cancelled => TaskOutcome::Cancelled,
        };
        Ok((outcome, settled.event_status))
    }
}

fn failure(given: FailTaskRequest) -> Result<Attempt, Status> {
    if given.message.is_empty() {
        return Err(invalid("message", "is required"));
    }
    let class = match given.class.as_str() {
        "" => ErrorClass::Failed,
        class => ErrorClass::named(Name::parse(class).map_err(|error| invalid("class", error.to_string()))?),
    };
    let message = given.message.chars().take(MAX_MESSAGE).collect();
    let error = ActionError { class, message, status: None };
    let retry_after = given.retry_after.map(|length| lease::length(&length, "retry_after")).transpose()?;
    match Then::try_from(given.then) {
        Ok(Then::Unspecified | Then::Retry) => {
            Ok(Attempt::Transient { error, retry_after: retry_after.filter(|wait| *wait > Duration::ZERO) })
        }
        Ok(Then::Fail) => Ok(Attempt::Permanent { error }),
        Ok(Then::Pause) => Ok(Attempt::Pause { error }),
        Err(_) => Err(invalid("then", format!("{} is not known", given.then))),
    }
}

/// The empty string is no value.
fn json(text: &str, field: &str, most: usize) -> Result<Option<RawJson>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.len() > most {
        return Err(invalid(field, format!("is {} bytes long, at most {most} are kept", text.len())));
    }
    RawJson::parse(text).map(Some).map_err(|error| invalid(field, error.to_string()))
}

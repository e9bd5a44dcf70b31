//! The outcome of a task: completed with a result, or failed with an error and the action that follows.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{ActionKey, Name};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus};
use millstream_model::{duration, entropy};
use millstream_store::action_store::{Lease, SettleVerdict, Settlement};
use millstream_store::outcome::{self, ActionAttempt};
use millstream_workflow::action::{self, ActionConclusion, FailureConsequence};
use millstream_workflow::schedule;
use serde::Serialize;

use super::batch::split_json_array;
use super::problem::ApiProblem;
use super::route::Route;
use super::tasks::{find_held_task, lease_lost, parse_task_key, read_json_body, read_token};
use super::views::{BatchItemOut, ItemList};
use crate::auth::TenantCaller;
use crate::fields::JsonFields;
use crate::query::QueryParams;
use crate::state::IngressState;
use crate::tasks::handed_out_tasks::HeldTask;

/// A result becomes part of an event, which has at most 256 KiB.
pub(crate) const MAX_RESULT: usize = 192 * 1024;
const BODY_BYTES: usize = 256 * 1024;
pub(crate) const MAX_MESSAGE: usize = 4 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/tasks/{key}/complete", "complete_task", complete_task)
            .summary("Finish a task with its result")
            .needs(Permission::LeaseTasks)
            .body("application/json", "TaskResult")
            .answer(200, "TaskSettled", "Recorded")
            .problems(&[404, 409, 413, 415]),
        Route::post("/v1/tasks/complete", "complete_tasks", complete_tasks)
            .summary("Finish many tasks, each with its result")
            .needs(Permission::LeaseTasks)
            .body("application/json", "TaskResultBatch")
            .answer(
                200,
                "TaskVerdicts",
                "One verdict per item, in order; those without a problem are recorded",
            )
            .problems(&[413, 415]),
        Route::post("/v1/tasks/{key}/fail", "fail_task", fail_task)
            .summary("Fail an attempt at a task: retry it, fail the action, or open an incident")
            .needs(Permission::LeaseTasks)
            .body("application/json", "TaskFailure")
            .answer(200, "TaskSettled", "Recorded")
            .problems(&[404, 409, 413, 415]),
    ]
}

#[derive(Debug, Serialize)]
pub(crate) struct TaskSettledOut {
    /// The outcome of the task.
    pub(crate) outcome: SettledTaskOutcome,
    /// The status of the event that called the action.
    pub(crate) event_status: EventStatus,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SettledTaskOutcome {
    Completed,
    /// The action will be retried.
    Retried,
    /// The definition handles the failure.
    Failed,
    /// A person has to decide.
    Incident,
    /// The execution has ended: the action is not retried.
    Cancelled,
}

async fn complete_task(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(key): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<TaskSettledOut>, ApiProblem> {
    params.finish_params()?;
    let (key, revision) = parse_task_key(&caller, &key)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(ApiProblem::invalid)?;
    let (token, result) = (read_token(&mut fields), read_result(&mut fields));
    fields.finish_fields().map_err(ApiProblem::invalid)?;
    let held = find_held_task(&door, &key, revision, token).await?;
    settle_task(&door, held, AttemptOutcome::Success { result }).await.map(Json)
}

/// Each item has its own verdict; the recorded ones share one commit, or a few.
async fn complete_tasks(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    params: QueryParams,
    request: Request,
) -> Result<Response, ApiProblem> {
    params.finish_params()?;
    let limits = &door.options.limits;
    let body = read_json_body(&door, request, limits.batch_bytes).await?;
    let texts = split_json_array(body.text()?, limits.batch_items)?;
    let verdicts =
        join_all(texts.iter().enumerate().map(|(at, text)| complete_batch_item(&door, &caller, at, text)))
            .await;
    let items = verdicts.iter().map(|verdict| match verdict {
        Ok(settled) => BatchItemOut::Good(settled),
        Err(problem) => BatchItemOut::Bad { problem: problem.document() },
    });
    Ok(Json(ItemList { items: items.collect() }).into_response())
}

async fn complete_batch_item(
    door: &IngressState,
    caller: &TenantCaller,
    at: usize,
    text: &str,
) -> Result<TaskSettledOut, ApiProblem> {
    let mut fields = JsonFields::of(text, &format!("items[{at}]")).map_err(ApiProblem::invalid)?;
    let key = fields.required_text("key").unwrap_or_default();
    let (token, result) = (read_token(&mut fields), read_result(&mut fields));
    fields.finish_fields().map_err(ApiProblem::invalid)?;
    let (key, revision) = parse_task_key(caller, &key)?;
    let held = find_held_task(door, &key, revision, token).await?;
    settle_task(door, held, AttemptOutcome::Success { result }).await
}

fn read_result(fields: &mut JsonFields<'_>) -> RawJson {
    let result = fields.raw_json("result").unwrap_or_else(RawJson::null);
    if result.len() > MAX_RESULT {
        fields.add_fault("result", format!("is {} bytes long, at most {MAX_RESULT} are kept", result.len()));
    }
    result
}

async fn fail_task(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(key): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<TaskSettledOut>, ApiProblem> {
    params.finish_params()?;
    let (key, revision) = parse_task_key(&caller, &key)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(ApiProblem::invalid)?;
    let token = read_token(&mut fields);
    let attempt = read_failure(&mut fields);
    fields.finish_fields().map_err(ApiProblem::invalid)?;
    let held = find_held_task(&door, &key, revision, token).await?;
    settle_task(&door, held, attempt).await.map(Json)
}

/// `then` is retry (the default), fail or pause.
fn read_failure(fields: &mut JsonFields<'_>) -> AttemptOutcome {
    let message: String =
        fields.required_text("message").unwrap_or_default().chars().take(MAX_MESSAGE).collect();
    let class = fields.take_text("class");
    let class = fields.parse_text("class", class, |text: &str| Name::parse(text));
    let class = class.map_or(ErrorClass::Failed, ErrorClass::named);
    let error = ActionFailure { class, message, status: None };
    let given = fields.take_text("retry_after");
    let retry_after: Option<Duration> =
        fields.parse_text("retry_after", given, |text: &str| duration::parse(text));
    match fields.take_text("then").as_deref() {
        None | Some("retry") => AttemptOutcome::Transient { error, retry_after },
        Some("fail") => AttemptOutcome::Permanent { error },
        Some("pause") => AttemptOutcome::Pause { error },
        Some(_) => {
            fields.add_fault("then", "must be retry, fail or pause");
            AttemptOutcome::Transient { error, retry_after }
        }
    }
}

pub(crate) async fn settle_task(
    door: &IngressState,
    held: HeldTask,
    attempt: AttemptOutcome,
) -> Result<TaskSettledOut, ApiProblem> {
    let key = &held.key;
    let unknown = || ApiProblem::not_found("task", key);
    let definition = match held.definition {
        Some(definition) => definition,
        None => {
            let targets = door.machines.definitions_of(std::slice::from_ref(&key.execution)).await?;
            targets.into_iter().next().flatten().ok_or_else(unknown)?
        }
    };
    let found =
        door.machines.find_machine(&key.execution.tenant, &definition.name, Some(definition.version)).await?;
    let (_, machine) = found.ok_or_else(unknown)?;
    let spec = machine.action_spec(&key.action).ok_or_else(unknown)?;

    let now = door.clock.now();
    let whose = ActionAttempt { key, revision: held.revision, traceparent: held.traceparent.as_deref() };
    let attempts = u32::try_from(held.attempts).unwrap_or(1);
    let left = held.ready_at.and_then(|ready_at| schedule::remaining_time(&spec.timeouts, ready_at, now));
    let unit = entropy::random_unit(&*door.entropy);
    let conclusion =
        action::conclude_attempt_within(spec, &whose.attempt_id(), attempts, attempt, unit, left);
    let outcome = outcome_of_conclusion(&conclusion);
    let settling =
        outcome::settle_conclusion(whose, conclusion, now, &mut || entropy::event_id(now, &*door.entropy));
    let lease = Lease { key: key.clone(), epoch: held.token };
    let settlement = Settlement { lease, event_id: held.event_id, outcome: settling };
    match door.reports.settle_task(settlement).await? {
        SettleVerdict::Recorded { event } => {
            door.handed.forget_task(key);
            door.board.end_lease(&key.execution.tenant);
            let outcome = match outcome {
                SettledTaskOutcome::Retried => outcome_of_retry(door, key).await,
                SettledTaskOutcome::Completed
                | SettledTaskOutcome::Failed
                | SettledTaskOutcome::Incident
                | SettledTaskOutcome::Cancelled => outcome,
            };
            Ok(TaskSettledOut { outcome, event_status: event })
        }
        SettleVerdict::Stale => Err(lease_lost(door, key, held.token).await),
    }
}

/// The outcome after a retry was recorded: the store does not retry an action of an ended execution. If the
/// store cannot be asked, the answer is the recorded decision.
async fn outcome_of_retry(door: &IngressState, key: &ActionKey) -> SettledTaskOutcome {
    match door.reports.find_task(key.clone()).await {
        Ok(Some(view)) if view.status == ActionStatus::Cancelled => SettledTaskOutcome::Cancelled,
        Ok(_) | Err(_) => SettledTaskOutcome::Retried,
    }
}

fn outcome_of_conclusion(conclusion: &ActionConclusion) -> SettledTaskOutcome {
    match conclusion {
        ActionConclusion::Succeeded { .. } => SettledTaskOutcome::Completed,
        ActionConclusion::Retry { .. } => SettledTaskOutcome::Retried,
        ActionConclusion::Failed {
            then: FailureConsequence::Emit(..) | FailureConsequence::Compensate,
            ..
        } => SettledTaskOutcome::Failed,
        ActionConclusion::Failed { then: FailureConsequence::Incident, .. } => SettledTaskOutcome::Incident,
    }
}

//! Tasks for external workers: lease, heartbeat and explain.
//!
//! A worker asks for types, waits until a task is available, and gets tasks with a key and a fencing token.
//! Every request about a task carries the token: after the lease has passed to another worker, the answer is
//! 409 and names the current holder.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use millstream_model::action_queue::WorkerCapability;
use millstream_model::duration;
use millstream_model::id::{ActionKey, Epoch, ExecutionId, Name, WorkerId};
use millstream_model::permission::Permission;
use millstream_model::quota::CountedQuota;
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{Lease, LeaseHeartbeat, LeasePulse, OutcomeDemand};
use millstream_store::views::ActionRecord;
use serde::Serialize;

use super::problem::{ApiProblem, ProblemKind};
use super::route::Route;
use crate::auth::TenantCaller;
use crate::body::{BodyLimits, MediaType, RequestBody};
use crate::fields::{self, ItemsError, JsonFields};
use crate::gate::RequestSlot;
use crate::query::QueryParams;
use crate::state::IngressState;
use crate::tasks::board::LeasePatience;
use crate::tasks::delivery::{ReadyTask, prepare_tasks};
use crate::tasks::diagnosis::{TaskDiagnosis, diagnose_task};
use crate::tasks::handed_out_tasks::HeldTask;

const BODY_BYTES: usize = 16 * 1024;
/// Maximum number of tasks in one answer.
pub(crate) const MOST: usize = 256;
/// Maximum number of types or labels of one worker.
pub(crate) const MANY: usize = 64;
/// Maximum number of external workers that `diagnose_task` lists.
const CONNECTED_SHOWN: usize = 1_000;
/// A request without a wait still queries the store.
const LEAST_WAIT: Duration = Duration::from_millis(200);
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long the store may take to answer a request without a wait.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// Id of a worker that sends none.
const UNNAMED: &str = "unnamed";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/tasks/lease", "lease_tasks", lease_tasks)
            .summary("Lease tasks of these types, waiting until some are available")
            .needs(Permission::LeaseTasks)
            .body("application/json", "LeaseTasks")
            .answer(200, "Tasks", "Tasks leased to this worker; empty when the wait timed out")
            .problems(&[413, 415]),
        Route::post("/v1/tasks/{key}/heartbeat", "heartbeat_task", heartbeat_task)
            .summary("Renew the lease of a task")
            .needs(Permission::LeaseTasks)
            .body("application/json", "TaskHeartbeat")
            .answer(200, "TaskHeld", "The lease is still held")
            .problems(&[404, 409, 413, 415]),
        Route::get("/v1/tasks/{key}/why", "why_task", explain_task)
            .summary("Explain why an action is not being performed, and list the connected workers")
            .needs(Permission::ReadData)
            .answer(200, "TaskWhy", "The status of the action, in words")
            .problems(&[404]),
    ]
}

#[derive(Debug, Serialize)]
struct TaskOut {
    key: String,
    token: Epoch,
    #[serde(rename = "type")]
    kind: Name,
    labels: BTreeSet<Name>,
    execution_id: ExecutionId,
    action: Name,
    attempt: i32,
    /// The deadline of the attempt.
    deadline: Timestamp,
    /// When the lease expires without a heartbeat.
    lease_until: Timestamp,
    heartbeat_ms: Option<u64>,
    input: RawJson,
    /// The latest progress of the previous attempt.
    progress: Option<RawJson>,
}

#[derive(Debug, Serialize)]
struct LeasedTasksOut {
    tasks: Vec<TaskOut>,
}

/// The parsed request of a worker.
struct TaskLeaseRequest {
    worker: WorkerId,
    can: WorkerCapability,
    most: usize,
    wait: Duration,
}

async fn lease_tasks(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    slot: RequestSlot,
    params: QueryParams,
    request: Request,
) -> Result<Json<LeasedTasksOut>, ApiProblem> {
    params.finish_params()?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let TaskLeaseRequest { worker, can, most, wait } = read_lease_request(&caller, body.json()?)?;
    drop(body);
    let permit = door.wait_place(&caller.tenant)?;
    // A waiting request holds no slot among the requests in flight.
    slot.give_back();
    let until = tokio::time::Instant::now() + wait.max(LEAST_WAIT);
    loop {
        let (asked, asked_at) = (door.clock.now(), tokio::time::Instant::now());
        let patience = if wait.is_zero() { LeasePatience::Asks } else { LeasePatience::Waits };
        let mut ticket = door.board.wait_for_tasks(worker.clone(), can.clone(), most, patience);
        let leased = tokio::select! {
            biased;
            leased = ticket.wait_for_lease() => Some(leased),
            () = tokio::time::sleep_until(if wait.is_zero() { asked_at + ANSWER } else { until }) => None,
            () = door.draining.cancelled() => None,
        };
        let Some((leased, undelivered)) = leased.filter(|(leased, _)| !leased.is_empty()) else {
            return Ok(Json(LeasedTasksOut { tasks: Vec::new() }));
        };
        let tasks = prepare_tasks(&door, leased, asked).await?;
        undelivered.mark_delivered();
        // All leased tasks had to be given back.
        if tasks.is_empty() && tokio::time::Instant::now() < until {
            continue;
        }
        drop(permit);
        return Ok(Json(LeasedTasksOut { tasks: tasks.into_iter().map(view_task).collect() }));
    }
}

fn view_task(task: ReadyTask) -> TaskOut {
    let ReadyTask { action, input, deadline } = task;
    TaskOut {
        key: action.lease.key.with_revision(action.revision),
        token: action.lease.epoch,
        kind: input.kind,
        labels: input.labels,
        execution_id: action.lease.key.execution.execution.clone(),
        action: action.lease.key.action.clone(),
        attempt: action.attempt,
        deadline,
        lease_until: action.lease_until,
        heartbeat_ms: action.heartbeat.map(|length| u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
        input: input.input,
        progress: action.progress,
    }
}

fn read_lease_request(caller: &TenantCaller, text: &str) -> Result<TaskLeaseRequest, ApiProblem> {
    let mut fields = JsonFields::of(text, "").map_err(ApiProblem::invalid)?;
    let kinds = read_names(&mut fields, "types").unwrap_or_default();
    if kinds.is_empty() {
        fields.add_fault("types", "names no type: at least one is needed");
    }
    let labels = read_names(&mut fields, "labels").unwrap_or_default();
    let most = match fields.take_field("max").map(parse_whole_number) {
        None => 1,
        Some(Some(most)) if (1..=MOST).contains(&most) => most,
        Some(_) => {
            fields.add_fault("max", format!("must be a whole number from 1 to {MOST}"));
            1
        }
    };
    let wait = read_wait(&mut fields);
    let given = fields.take_text("worker");
    let named = fields.parse_text("worker", given, |text: &str| WorkerId::parse(text));
    fields.finish_fields().map_err(ApiProblem::invalid)?;
    let worker = worker_of_caller(caller, named)?;
    let can = WorkerCapability { tenant: caller.tenant.clone(), kinds, labels };
    Ok(TaskLeaseRequest { worker, can, most, wait })
}

/// The id that the worker sends, or the name of its key.
pub(crate) fn worker_of_caller(
    caller: &TenantCaller,
    named: Option<WorkerId>,
) -> Result<WorkerId, ApiProblem> {
    match (named, caller.actor.as_deref().map(WorkerId::parse)) {
        (Some(worker), _) => Ok(worker),
        (None, Some(Ok(actor))) => Ok(actor),
        (None, Some(Err(_)) | None) => WorkerId::parse(UNNAMED)
            .map_err(|_| ApiProblem::new(ProblemKind::Internal, "the worker has no name")),
    }
}

/// Seconds, or a duration such as `20s`.
fn read_wait(fields: &mut JsonFields<'_>) -> Duration {
    let Some(text) = fields.take_field("wait") else { return Duration::ZERO };
    let spelled = || serde_json::from_str::<String>(text).ok().and_then(|text| duration::parse(&text).ok());
    let given = parse_whole_number(text).map(Duration::from_secs).or_else(spelled);
    match given {
        Some(wait) if wait <= LONGEST_WAIT => wait,
        Some(_) | None => {
            fields.add_fault("wait", "must be seconds from 0 to 60, or a duration such as \"20s\"");
            Duration::ZERO
        }
    }
}

fn read_names(fields: &mut JsonFields<'_>, field: &'static str) -> Option<BTreeSet<Name>> {
    let text = fields.take_field(field)?;
    let items = match fields::split_array(text, MANY) {
        Ok(items) => items,
        Err(ItemsError::TooMany) => {
            fields.add_fault(field, format!("has more than {MANY} items"));
            return None;
        }
        Err(ItemsError::Syntax(_)) => {
            fields.add_fault(field, "must be a list of names");
            return None;
        }
    };
    let mut names = BTreeSet::new();
    for (at, item) in items.into_iter().enumerate() {
        match serde_json::from_str::<String>(item).map(Name::parse) {
            Ok(Ok(name)) => {
                names.insert(name);
            }
            Ok(Err(error)) => fields.add_fault(&format!("{field}[{at}]"), format!("the name {error}")),
            Err(_) => fields.add_fault(&format!("{field}[{at}]"), "must be a string"),
        }
    }
    Some(names)
}

#[derive(Debug, Serialize)]
struct TaskLeaseOut {
    lease_until: Timestamp,
    /// The execution was cancelled: the worker may stop.
    cancelled: bool,
}

async fn heartbeat_task(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(key): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, ApiProblem> {
    params.finish_params()?;
    let (key, revision) = parse_task_key(&caller, &key)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(ApiProblem::invalid)?;
    let token = read_token(&mut fields);
    let progress = fields.raw_json("progress");
    fields.finish_fields().map_err(ApiProblem::invalid)?;
    find_held_task(&door, &key, revision, token).await?;
    let lease = Lease { key: key.clone(), epoch: token };
    match door.reports.beat_task(LeaseHeartbeat { lease, progress }).await? {
        LeasePulse::Held { until, wanted } => {
            let cancelled = wanted == OutcomeDemand::Cancelled;
            Ok((StatusCode::OK, Json(TaskLeaseOut { lease_until: until, cancelled })).into_response())
        }
        LeasePulse::Lost => Err(lease_lost(&door, &key, token).await),
    }
}

#[derive(Debug, Serialize)]
struct TaskWhyOut {
    key: String,
    status: ActionStatus,
    attempts: i32,
    #[serde(flatten)]
    why: TaskDiagnosis,
}

async fn explain_task(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(key): Path<String>,
    params: QueryParams,
) -> Result<Json<TaskWhyOut>, ApiProblem> {
    params.finish_params()?;
    let (key, _) = parse_task_key(&caller, &key)?;
    let view = find_task(&door, &key).await?;
    let now = door.clock.now();
    let since = now.minus(door.options.worker_ttl);
    let external = door.stores.tasks.list_connected(&caller.tenant, since, CONNECTED_SHOWN).await?;
    let engine = door.stores.workers.list_workers(since).await?;
    let at_quota = match view.queue.is_external() && view.status == ActionStatus::Ready {
        true => door.quotas.refusal_now(&caller.tenant, CountedQuota::TaskLeases).await?,
        false => None,
    };
    let shown = view.key.with_revision(view.revision);
    let (status, attempts) = (view.status, view.attempts);
    let why = diagnose_task(&view, external, engine, at_quota, now);
    Ok(Json(TaskWhyOut { key: shown, status, attempts, why }))
}

pub(super) async fn read_json_body(
    door: &IngressState,
    request: Request,
    bytes: usize,
) -> Result<RequestBody, ApiProblem> {
    let (parts, body) = request.into_parts();
    MediaType::of(&parts.headers, &[MediaType::Json])?;
    let allowed = BodyLimits { bytes, time: door.options.limits.body_timeout };
    RequestBody::read_within(body, &parts.headers, allowed, &door.bodies.for_caller(&parts.extensions)).await
}

/// Parses the task key of a path; a task of another tenant is answered with 404.
pub(crate) fn parse_task_key(caller: &TenantCaller, text: &str) -> Result<(ActionKey, i32), ApiProblem> {
    ActionKey::parse_within(&caller.tenant, text).ok_or_else(|| ApiProblem::not_found("task", text))
}

/// Parses a whole number: JSON makes no difference between `2` and `2.0`.
pub(crate) fn parse_whole_number<T: TryFrom<i64>>(text: &str) -> Option<T> {
    let number = text.parse::<i64>().ok().or_else(|| {
        let number = text.parse::<f64>().ok()?;
        // Larger whole numbers are not all exact as a double.
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        (number.fract() == 0.0 && number.abs() < 9.0e15).then_some(number as i64)
    })?;
    T::try_from(number).ok()
}

pub(super) fn read_token(fields: &mut JsonFields<'_>) -> Epoch {
    match fields.take_field("token").map(parse_whole_number) {
        Some(Some(token)) => Epoch(token),
        Some(None) => {
            fields.add_fault("token", "must be the whole number that came with the task");
            Epoch::NONE
        }
        None => {
            fields.add_fault("token", "is required: it came with the task");
            Epoch::NONE
        }
    }
}

pub(super) async fn find_task(door: &IngressState, key: &ActionKey) -> Result<ActionRecord, ApiProblem> {
    door.reports.find_task(key.clone()).await?.ok_or_else(|| ApiProblem::not_found("task", key))
}

/// The task, if the token is that of its lease, or was when this process leased it out; the write makes the
/// final check.
pub(crate) async fn find_held_task(
    door: &IngressState,
    key: &ActionKey,
    revision: i32,
    token: Epoch,
) -> Result<HeldTask, ApiProblem> {
    if let Some(held) = door.handed.held_under_token(key, revision, token) {
        return Ok(held);
    }
    let view = find_task(door, key).await?;
    if view.revision != revision || view.epoch != token || view.status != ActionStatus::Leased {
        return Err(stale_token_problem(&view, token));
    }
    if !view.queue.is_external() {
        let detail = format!("{key} is no task: only actions of the kind `task` are leased over HTTP");
        return Err(ApiProblem::new(ProblemKind::Conflict, detail));
    }
    Ok(view.into())
}

pub(crate) async fn lease_lost(door: &IngressState, key: &ActionKey, token: Epoch) -> ApiProblem {
    door.handed.forget_task(key);
    match find_task(door, key).await {
        Ok(view) => stale_token_problem(&view, token),
        Err(problem) => problem,
    }
}

/// The conflict that explains a stale token.
fn stale_token_problem(view: &ActionRecord, token: Epoch) -> ApiProblem {
    let holder = view.worker_id.as_ref().map_or("another worker", WorkerId::as_str);
    let detail = match view.status {
        ActionStatus::Leased if view.epoch == token => {
            format!("the task's input was edited, its key is now {}", view.key.with_revision(view.revision))
        }
        ActionStatus::Leased => {
            format!(
                "the lease was lost: {holder} holds the task with token {}, your token is {token}",
                view.epoch
            )
        }
        ActionStatus::Succeeded | ActionStatus::Failed | ActionStatus::Skipped | ActionStatus::Cancelled => {
            format!("the task is already {}", view.status)
        }
        ActionStatus::Ready | ActionStatus::Waiting | ActionStatus::Awaiting | ActionStatus::Standby => {
            format!("the task is not leased: it is {}", view.status)
        }
    };
    ApiProblem::new(ProblemKind::Conflict, detail)
}

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
use millstream_api::tasks::{LeasedTask, LeasedTasks, TaskHeartbeat, TaskHeld, TaskLeaseQuery, TaskWhy};
use millstream_model::action_queue::WorkerCapability;
use millstream_model::duration;
use millstream_model::id::{Epoch, Name, WorkerId};
use millstream_model::permission::Permission;
use millstream_model::quota::CountedQuota;
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_store::action_store::{Lease, LeaseHeartbeat, LeasePulse, OutcomeDemand};

use super::route::Route;
use super::views::to_texts;
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::http::body::read_json_body;
use crate::http::fields::{self, ItemsError, JsonFields, parse_whole_number};
use crate::http::query::QueryParams;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::tasks::board::LeasePatience;
use crate::tasks::delivery::{ReadyTask, prepare_tasks};
use crate::tasks::diagnosis::{TaskDiagnosis, diagnose_task};
use crate::tasks::held_tasks::{find_held_task, find_task, lease_lost, parse_task_key};
use crate::tasks::lease_request::{ANSWER, LONGEST_WAIT, MANY, MOST, worker_of_caller};

const BODY_BYTES: usize = 16 * 1024;
/// Maximum number of external workers that `diagnose_task` lists.
const CONNECTED_SHOWN: usize = 1_000;
/// A request without a wait still queries the store.
const LEAST_WAIT: Duration = Duration::from_millis(200);

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/tasks/lease", "lease_tasks", lease_tasks)
            .summary("Lease tasks of these types, waiting until some are available")
            .needs(Permission::LeaseTasks)
            .accepts::<TaskLeaseQuery>()
            .returns::<LeasedTasks>(200, "Tasks leased to this worker; empty when the wait timed out")
            .problems(&[413, 415]),
        Route::post("/v1/tasks/{key}/heartbeat", "heartbeat_task", heartbeat_task)
            .summary("Renew the lease of a task")
            .needs(Permission::LeaseTasks)
            .accepts::<TaskHeartbeat>()
            .returns::<TaskHeld>(200, "The lease is still held")
            .problems(&[404, 409, 413, 415]),
        Route::get("/v1/tasks/{key}/why", "why_task", explain_task)
            .summary("Explain why an action is not being performed, and list the connected workers")
            .needs(Permission::ReadData)
            .returns::<TaskWhy>(200, "The status of the action, in words")
            .problems(&[404]),
    ]
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
) -> Result<Json<LeasedTasks<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let TaskLeaseRequest { worker, can, most, wait } = read_lease_request(&caller, body.json()?)?;
    drop(body);
    let permit = door.admission.wait_place(&caller.tenant)?;
    // A waiting request holds no slot among the requests in flight.
    slot.give_back();
    let until = tokio::time::Instant::now() + wait.max(LEAST_WAIT);
    loop {
        let (asked, asked_at) = (door.clock.now(), tokio::time::Instant::now());
        let patience = if wait.is_zero() { LeasePatience::Asks } else { LeasePatience::Waits };
        let mut ticket = door.tasks.board.wait_for_tasks(worker.clone(), can.clone(), most, patience);
        let leased = tokio::select! {
            biased;
            leased = ticket.wait_for_lease() => Some(leased),
            () = tokio::time::sleep_until(if wait.is_zero() { asked_at + ANSWER } else { until }) => None,
            () = door.draining.cancelled() => None,
        };
        let Some((leased, undelivered)) = leased.filter(|(leased, _)| !leased.is_empty()) else {
            return Ok(Json(LeasedTasks { tasks: Vec::new() }));
        };
        let tasks = prepare_tasks(&door.tasks, leased, asked).await?;
        undelivered.mark_delivered();
        // All leased tasks had to be given back.
        if tasks.is_empty() && tokio::time::Instant::now() < until {
            continue;
        }
        drop(permit);
        return Ok(Json(LeasedTasks { tasks: tasks.into_iter().map(view_task).collect() }));
    }
}

fn view_task(task: ReadyTask) -> LeasedTask<RawJson> {
    let ReadyTask { action, input, deadline } = task;
    LeasedTask {
        key: action.lease.key.with_revision(action.revision),
        token: action.lease.epoch.0,
        kind: input.kind.to_string(),
        labels: to_texts(input.labels),
        execution_id: action.lease.key.execution.execution.to_string(),
        action: action.lease.key.action.to_string(),
        attempt: action.attempt,
        deadline,
        lease_until: action.lease_until,
        heartbeat_ms: action.heartbeat.map(|length| u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
        input: input.input,
        progress: action.progress.unwrap_or_else(RawJson::null),
    }
}

fn read_lease_request(caller: &TenantCaller, text: &str) -> Result<TaskLeaseRequest, RequestRefusal> {
    let mut fields = JsonFields::of(text, "").map_err(RequestRefusal::invalid)?;
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
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    let worker = worker_of_caller(caller, named)?;
    let can = WorkerCapability { tenant: caller.tenant.clone(), kinds, labels };
    Ok(TaskLeaseRequest { worker, can, most, wait })
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

async fn heartbeat_task(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(key): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let (key, revision) = parse_task_key(&caller, &key)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let token = read_token(&mut fields);
    let progress = fields.raw_json("progress");
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    find_held_task(&door.tasks, &key, revision, token).await?;
    let lease = Lease { key: key.clone(), epoch: token };
    match door.tasks.reports.beat_task(LeaseHeartbeat { lease, progress }).await? {
        LeasePulse::Held { until, wanted } => {
            let cancelled = wanted == OutcomeDemand::Cancelled;
            Ok((StatusCode::OK, Json(TaskHeld { lease_until: until, cancelled })).into_response())
        }
        LeasePulse::Lost => Err(lease_lost(&door.tasks, &key, token).await),
    }
}

async fn explain_task(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(key): Path<String>,
    params: QueryParams,
) -> Result<Json<TaskWhy>, RequestRefusal> {
    params.finish_params()?;
    let (key, _) = parse_task_key(&caller, &key)?;
    let view = find_task(&door.tasks, &key).await?;
    let now = door.clock.now();
    let since = now.minus(door.options.worker_ttl);
    let external = door.stores.tasks.list_connected(&caller.tenant, since, CONNECTED_SHOWN).await?;
    let engine = door.stores.workers.list_workers(since).await?;
    let at_quota = match view.queue.is_external() && view.status == ActionStatus::Ready {
        true => door.quotas.refusal_now(&caller.tenant, CountedQuota::TaskLeases).await?,
        false => None,
    };
    let shown = view.key.with_revision(view.revision);
    let (status, attempts) = (view.status.into(), view.attempts);
    let TaskDiagnosis { reason, connected } = diagnose_task(&view, external, engine, at_quota, now);
    Ok(Json(TaskWhy { key: shown, status, attempts, reason, connected }))
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

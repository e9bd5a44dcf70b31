//! The outcome of a task: completed with a result, or failed with an error and the action that follows.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use futures::future::join_all;
use millstream_api::tasks::{TaskFailure, TaskReportOutcome, TaskResult, TaskResults, TaskSettled};
use millstream_api::verdicts::{Verdict, Verdicts};
use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::duration;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::Name;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;

use super::batch::split_json_array;
use super::body::read_json_body;
use super::problem::problem_document;
use super::route::Route;
use super::tasks::read_token;
use crate::auth::TenantCaller;
use crate::http::fields::JsonFields;
use crate::http::query::QueryParams;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::tasks::held_tasks::{find_held_task, parse_task_key};
use crate::tasks::outcome::{MAX_MESSAGE, MAX_RESULT, SettledTask, SettledTaskOutcome, settle_task};

const BODY_BYTES: usize = 256 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/tasks/{key}/complete", "complete_task", complete_task)
            .summary("Finish a task with its result")
            .needs(Permission::LeaseTasks)
            .accepts::<TaskResult>()
            .returns::<TaskSettled>(200, "Recorded")
            .problems(&[404, 409, 413, 415]),
        Route::post("/v1/tasks/complete", "complete_tasks", complete_tasks)
            .summary("Finish many tasks, each with its result")
            .needs(Permission::LeaseTasks)
            .accepts::<TaskResults>()
            .returns::<Verdicts<TaskSettled>>(
                200,
                "One verdict per item, in order; those without a problem are recorded",
            )
            .problems(&[413, 415]),
        Route::post("/v1/tasks/{key}/fail", "fail_task", fail_task)
            .summary("Fail an attempt at a task: retry it, fail the action, or open an incident")
            .needs(Permission::LeaseTasks)
            .accepts::<TaskFailure>()
            .returns::<TaskSettled>(200, "Recorded")
            .problems(&[404, 409, 413, 415]),
    ]
}

async fn complete_task(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(key): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<TaskSettled>, RequestRefusal> {
    params.finish_params()?;
    let (key, revision) = parse_task_key(&caller, &key)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let (token, result) = (read_token(&mut fields), read_result(&mut fields));
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    let held = find_held_task(&door.tasks, &key, revision, token).await?;
    settle_task(&door.tasks, held, AttemptOutcome::Success { result }).await.map(task_settled).map(Json)
}

/// Each item has its own verdict; the recorded ones share one commit, or a few.
async fn complete_tasks(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    params: QueryParams,
    request: Request,
) -> Result<Json<Verdicts<TaskSettled>>, RequestRefusal> {
    params.finish_params()?;
    let limits = &door.options.limits;
    let body = read_json_body(&door, request, limits.batch_bytes).await?;
    let texts = split_json_array(body.text()?, limits.batch_items)?;
    let verdicts =
        join_all(texts.iter().enumerate().map(|(at, text)| complete_batch_item(&door, &caller, at, text)))
            .await;
    let items = verdicts.into_iter().map(|verdict| Verdict::from(verdict.map_err(problem_document)));
    Ok(Json(Verdicts { items: items.collect() }))
}

async fn complete_batch_item(
    door: &IngressState,
    caller: &TenantCaller,
    at: usize,
    text: &str,
) -> Result<TaskSettled, RequestRefusal> {
    let mut fields = JsonFields::of(text, &format!("items[{at}]")).map_err(RequestRefusal::invalid)?;
    let key = fields.required_text("key").unwrap_or_default();
    let (token, result) = (read_token(&mut fields), read_result(&mut fields));
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    let (key, revision) = parse_task_key(caller, &key)?;
    let held = find_held_task(&door.tasks, &key, revision, token).await?;
    settle_task(&door.tasks, held, AttemptOutcome::Success { result }).await.map(task_settled)
}

fn task_settled(settled: SettledTask) -> TaskSettled {
    let outcome = match settled.outcome {
        SettledTaskOutcome::Completed => TaskReportOutcome::Completed,
        SettledTaskOutcome::Retried => TaskReportOutcome::Retried,
        SettledTaskOutcome::Failed => TaskReportOutcome::Failed,
        SettledTaskOutcome::Incident => TaskReportOutcome::Incident,
        SettledTaskOutcome::Cancelled => TaskReportOutcome::Cancelled,
    };
    TaskSettled { outcome, event_status: settled.event_status.into() }
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
) -> Result<Json<TaskSettled>, RequestRefusal> {
    params.finish_params()?;
    let (key, revision) = parse_task_key(&caller, &key)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let token = read_token(&mut fields);
    let attempt = read_failure(&mut fields);
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    let held = find_held_task(&door.tasks, &key, revision, token).await?;
    settle_task(&door.tasks, held, attempt).await.map(task_settled).map(Json)
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

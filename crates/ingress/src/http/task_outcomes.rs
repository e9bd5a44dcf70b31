//! The outcome of a task: completed with a result, or failed with an error and the action that follows.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use millstream_core::action::{self, ActionError, Attempt, Conclusion, ErrorClass, OnFailure};
use millstream_core::id::{ActionKey, Name};
use millstream_core::permission::Permission;
use millstream_core::raw::RawJson;
use millstream_core::schedule;
use millstream_core::status::{ActionStatus, EventStatus};
use millstream_core::{duration, entropy};
use millstream_store::action_store::{Lease, SettleVerdict, Settlement};
use millstream_store::outcome::{self, Whose};
use serde::Serialize;

use super::batch::array;
use super::problem::Problem;
use super::route::Route;
use super::tasks::{held, key_of, passed_on, read, token};
use super::views::{Item, Items};
use crate::auth::Caller;
use crate::door::Door;
use crate::fields::Fields;
use crate::query::Params;
use crate::tasks::handed::Held;

/// A result becomes part of an event, which has at most 256 KiB.
pub(crate) const MAX_RESULT: usize = 192 * 1024;
const BODY_BYTES: usize = 256 * 1024;
pub(crate) const MAX_MESSAGE: usize = 4 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/tasks/{key}/complete", "complete_task", complete)
            .summary("Finish a task with its result")
            .needs(Permission::LeaseTasks)
            .body("application/json", "TaskResult")
            .answer(200, "TaskSettled", "Recorded")
            .problems(&[404, 409, 413, 415]),
        Route::post("/v1/tasks/complete", "complete_tasks", complete_many)
            .summary("Finish many tasks, each with its result")
            .needs(Permission::LeaseTasks)
            .body("application/json", "TaskResultBatch")
            .answer(
                200,
                "TaskVerdicts",
                "One verdict per item, in order; those without a problem are recorded",
            )
            .problems(&[413, 415]),
        Route::post("/v1/tasks/{key}/fail", "fail_task", fail)
            .summary("Fail an attempt at a task: retry it, fail the action, or open an incident")
            .needs(Permission::LeaseTasks)
            .body("application/json", "TaskFailure")
            .answer(200, "TaskSettled", "Recorded")
            .problems(&[404, 409, 413, 415]),
    ]
}

#[derive(Debug, Serialize)]
pub(crate) struct SettledOut {
    /// The outcome of the task.
    pub(crate) outcome: Became,
    /// The status of the event that called the action.
    pub(crate) event_status: EventStatus,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Became {
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

async fn complete(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(key): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<SettledOut>, Problem> {
    params.finish()?;
    let (key, revision) = key_of(&caller, &key)?;
    let body = read(&door, request, BODY_BYTES).await?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let (token, result) = (token(&mut fields), result(&mut fields));
    fields.finish().map_err(Problem::invalid)?;
    let held = held(&door, &key, revision, token).await?;
    settle(&door, held, Attempt::Success { result }).await.map(Json)
}

/// Each item has its own verdict; the recorded ones share one commit, or a few.
async fn complete_many(
    State(door): State<Arc<Door>>,
    caller: Caller,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let limits = &door.options.limits;
    let body = read(&door, request, limits.batch_bytes).await?;
    let texts = array(body.text()?, limits.batch_items)?;
    let verdicts =
        join_all(texts.iter().enumerate().map(|(at, text)| complete_one(&door, &caller, at, text))).await;
    let items = verdicts.iter().map(|verdict| match verdict {
        Ok(settled) => Item::Good(settled),
        Err(problem) => Item::Bad { problem: problem.document() },
    });
    Ok(Json(Items { items: items.collect() }).into_response())
}

async fn complete_one(door: &Door, caller: &Caller, at: usize, text: &str) -> Result<SettledOut, Problem> {
    let mut fields = Fields::of(text, &format!("items[{at}]")).map_err(Problem::invalid)?;
    let key = fields.required("key").unwrap_or_default();
    let (token, result) = (token(&mut fields), result(&mut fields));
    fields.finish().map_err(Problem::invalid)?;
    let (key, revision) = key_of(caller, &key)?;
    let held = held(door, &key, revision, token).await?;
    settle(door, held, Attempt::Success { result }).await
}

fn result(fields: &mut Fields<'_>) -> RawJson {
    let result = fields.raw("result").unwrap_or_else(RawJson::null);
    if result.len() > MAX_RESULT {
        fields.fault("result", format!("is {} bytes long, at most {MAX_RESULT} are kept", result.len()));
    }
    result
}

async fn fail(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(key): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<SettledOut>, Problem> {
    params.finish()?;
    let (key, revision) = key_of(&caller, &key)?;
    let body = read(&door, request, BODY_BYTES).await?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let token = token(&mut fields);
    let attempt = failure(&mut fields);
    fields.finish().map_err(Problem::invalid)?;
    let held = held(&door, &key, revision, token).await?;
    settle(&door, held, attempt).await.map(Json)
}

/// `then` is retry (the default), fail or pause.
fn failure(fields: &mut Fields<'_>) -> Attempt {
    let message: String = fields.required("message").unwrap_or_default().chars().take(MAX_MESSAGE).collect();
    let class = fields.text("class");
    let class = fields.parsed("class", class, |text: &str| Name::parse(text));
    let class = class.map_or(ErrorClass::Failed, ErrorClass::named);
    let error = ActionError { class, message, status: None };
    let given = fields.text("retry_after");
    let retry_after: Option<Duration> =
        fields.parsed("retry_after", given, |text: &str| duration::parse(text));
    match fields.text("then").as_deref() {
        None | Some("retry") => Attempt::Transient { error, retry_after },
        Some("fail") => Attempt::Permanent { error },
        Some("pause") => Attempt::Pause { error },
        Some(_) => {
            fields.fault("then", "must be retry, fail or pause");
            Attempt::Transient { error, retry_after }
        }
    }
}

pub(crate) async fn settle(door: &Door, held: Held, attempt: Attempt) -> Result<SettledOut, Problem> {
    let key = &held.key;
    let unknown = || Problem::not_found("task", key);
    let definition = match held.definition {
        Some(definition) => definition,
        None => {
            let targets = door.machines.targets(std::slice::from_ref(&key.execution)).await?;
            targets.into_iter().next().flatten().ok_or_else(unknown)?
        }
    };
    let found = door.machines.find(&key.execution.tenant, &definition.name, Some(definition.version)).await?;
    let (_, machine) = found.ok_or_else(unknown)?;
    let spec = machine.action(&key.action).ok_or_else(unknown)?;

    let now = door.clock.now();
    let whose = Whose { key, revision: held.revision, traceparent: held.traceparent.as_deref() };
    let attempts = u32::try_from(held.attempts).unwrap_or(1);
    let left = held.ready_at.and_then(|ready_at| schedule::left(&spec.timeouts, ready_at, now));
    let unit = entropy::unit(&*door.entropy);
    let conclusion = action::conclude_within(spec, &whose.shown(), attempts, attempt, unit, left);
    let outcome = became(&conclusion);
    let settling = outcome::settling(whose, conclusion, now, &mut || entropy::event_id(now, &*door.entropy));
    let lease = Lease { key: key.clone(), epoch: held.token };
    let settlement = Settlement { lease, event_id: held.event_id, outcome: settling };
    match door.reports.settle(settlement).await? {
        SettleVerdict::Recorded { event } => {
            door.handed.forget(key);
            door.board.end_lease(&key.execution.tenant);
            let outcome = match outcome {
                Became::Retried => retried(door, key).await,
                Became::Completed | Became::Failed | Became::Incident | Became::Cancelled => outcome,
            };
            Ok(SettledOut { outcome, event_status: event })
        }
        SettleVerdict::Stale => Err(passed_on(door, key, held.token).await),
    }
}

/// The outcome after a retry was recorded: the store does not retry an action of an ended execution. If the
/// store cannot be asked, the answer is the recorded decision.
async fn retried(door: &Door, key: &ActionKey) -> Became {
    match door.reports.find(key.clone()).await {
        Ok(Some(view)) if view.status == ActionStatus::Cancelled => Became::Cancelled,
        Ok(_) | Err(_) => Became::Retried,
    }
}

fn became(conclusion: &Conclusion) -> Became {
    match conclusion {
        Conclusion::Succeeded { .. } => Became::Completed,
        Conclusion::Retry { .. } => Became::Retried,
        Conclusion::Failed { then: OnFailure::Emit(..) | OnFailure::Compensate, .. } => Became::Failed,
        Conclusion::Failed { then: OnFailure::Incident, .. } => Became::Incident,
    }
}

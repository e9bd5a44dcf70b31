//! Operator interventions on stuck or unwanted work: retry an event, cancel an execution.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as Incoming;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_core::definition::Mode;
use millstream_core::id::{ExecutionKey, Name};
use millstream_core::permission::Permission;
use millstream_core::raw::RawJson;
use millstream_core::status::EventStatus;
use millstream_store::intervention::{Decision, Retried};
use millstream_stream::doorbell::Bell;
use serde::Serialize;

use super::posting::{self, Draft};
use super::problem::{Kind, Problem};
use super::route::{Located, Route};
use super::views::AcceptedOut;
use super::{events, executions};
use crate::auth::Caller;
use crate::body::{Allowance, Body, Media};
use crate::door::Door;
use crate::fields::Fields;
use crate::gate::Slot;
use crate::prefer::Prefer;
use crate::query::Params;
use crate::trace::Trace;

const BODY_BYTES: usize = 16 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/events/{event_id}/retry", "retry_event", retry)
            .summary("Retry a dead event, or the failed actions of a failed event")
            .needs(Permission::Operate)
            .body("application/json", "Reason")
            .body_optional()
            .answer(202, "AcceptedEvent", "Recorded; the retry is under way")
            .problems(&[404, 409])
            .located(Located::Always)
            .leads_to("get_event", &["event_id"]),
        Route::post("/v1/executions/{execution_id}/cancel", "cancel_execution", cancel)
            .summary("Cancel an execution; recorded as the event millstream.cancel")
            .needs(Permission::Operate)
            .headers(&["Idempotency-Key", "Prefer"])
            .body("application/json", "Reason")
            .body_optional()
            .answer(202, "AcceptedEvent", "Durable; decided in the order of the mailbox")
            .answer(200, "Event", "Durable, and the condition that the caller waited for holds")
            .problems(&[404, 409])
            .located(Located::Always)
            .leads_to("get_event", &["event_id"])
            .leads_to("get_execution", &["execution_id"]),
    ]
}

async fn retry(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let event_id = events::event_of(&id)?;
    let (parts, body) = request.into_parts();
    let reason = reason(&door, &parts.headers, body).await?;
    let by = Decision { actor: caller.actor.clone(), reason };
    let now = door.clock.now();
    match door.stores.interventions.retry(&caller.tenant, event_id, &by, now).await? {
        Retried::NotFound => Err(Problem::not_found("event", id)),
        Retried::NotApplicable { status } => Err(Problem::new(
            Kind::Conflict,
            format!("the event is {status}; only dead and failed events can be retried"),
        )),
        Retried::Accepted { execution } => {
            // A dead event is back in the mailbox, failed actions are ready: any free worker takes them.
            door.ring.ring([Bell::Mailbox(execution.clone()), Bell::Actions(execution.clone())]);
            door.news.work.notify_one();
            let seen = door.stores.event_views.events(&[(caller.tenant, event_id)]).await;
            let status = match seen {
                Ok(views) => views.into_iter().flatten().next().map(|view| view.status),
                Err(_) => None,
            };
            let status = status.unwrap_or(EventStatus::Pending);
            let accepted = AcceptedOut { event_id, execution_id: execution.execution, status };
            let mut response = (StatusCode::ACCEPTED, Json(accepted)).into_response();
            if let Ok(location) = HeaderValue::from_str(&format!("/v1/events/{event_id}")) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            Ok(response)
        }
    }
}

#[derive(Serialize)]
struct CancelPayload {
    reason: Option<String>,
}

async fn cancel(
    State(door): State<Arc<Door>>,
    caller: Caller,
    trace: Trace,
    slot: Slot,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let execution = posting::execution_of(&caller, &id)?;
    let (parts, body) = request.into_parts();
    let prefer = Prefer::of(&parts.headers)?;
    let idempotency_key = posting::idempotency_header(&parts.headers)?;
    let reason = reason(&door, &parts.headers, body).await?;

    let payload = RawJson::of(&CancelPayload { reason });
    let draft = Draft { execution, name: Name::cancel(), payload, idempotency_key };
    match may_be_cancelled(&door, &draft.execution).await {
        Ok(()) => {
            let event = posting::new_event(&door, &caller, &trace, draft);
            events::submit(&door, &slot, event, prefer, Mode::Async).await
        }
        Err(problem) => events::repeated(&door, &slot, &draft, prefer, problem).await,
    }
}

async fn may_be_cancelled(door: &Door, execution: &ExecutionKey) -> Result<(), Problem> {
    let view = executions::find(door, execution).await?;
    if view.state.phase.is_ended() {
        let detail = format!("the execution is already {}", view.status);
        return Err(Problem::new(Kind::Conflict, detail));
    }
    Ok(())
}

/// Reads the optional `{reason}`; the body may be missing.
pub(super) async fn reason(
    door: &Door,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Option<String>, Problem> {
    let allowed = Allowance { bytes: BODY_BYTES, time: door.options.limits.body_timeout };
    let body = Body::read(body, headers, allowed, &door.bodies).await?;
    if body.is_empty() {
        return Ok(None);
    }
    Media::of(headers, &[Media::Json])?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let reason = fields.text("reason").map(|text| text.into_owned());
    fields.finish().map_err(Problem::invalid)?;
    Ok(reason)
}

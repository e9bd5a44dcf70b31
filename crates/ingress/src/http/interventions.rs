//! Operator interventions on stuck or unwanted work: retry an event, cancel an execution.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as Incoming;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_api::events::{AcceptedEvent, Event};
use millstream_api::reason::Reason;
use millstream_model::id::{ExecutionKey, Name};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_store::intervention::{DecisionRecord, RetryVerdict};
use millstream_stream::doorbell::Doorbell;
use millstream_workflow::definition::ResponseMode;
use serde::Serialize;

use super::route::{LocationHeader, Route};
use super::{events, executions, views};
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::http::body::read_optional_body;
use crate::http::fields::JsonFields;
use crate::http::prefer::PreferHeader;
use crate::http::query::QueryParams;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;
use crate::submit::event_draft::{self, EventDraft};
use crate::submit::idempotency_key;
use crate::trace::TraceContext;

const BODY_BYTES: usize = 16 * 1024;

pub(super) fn event_routes() -> Vec<Route> {
    vec![
        Route::post("/v1/events/{event_id}/retry", "retry_event", retry_event)
            .summary("Retry a dead event, or the failed actions of a failed event")
            .needs(Permission::Operate)
            .accepts::<Reason>()
            .body_optional()
            .returns::<AcceptedEvent>(202, "Recorded; the retry is under way")
            .problems(&[404, 409])
            .located(LocationHeader::Always)
            .leads_to("get_event", &["event_id"]),
    ]
}

pub(super) fn execution_routes() -> Vec<Route> {
    vec![
        Route::post("/v1/executions/{execution_id}/cancel", "cancel_execution", cancel_execution)
            .summary("Cancel an execution; recorded as the event millstream.cancel")
            .needs(Permission::Operate)
            .headers(&["Idempotency-Key", "Prefer"])
            .accepts::<Reason>()
            .body_optional()
            .returns::<AcceptedEvent>(202, "Durable; decided in the order of the mailbox")
            .returns::<Event>(200, "Durable, and the condition that the caller waited for holds")
            .problems(&[404, 409])
            .located(LocationHeader::Always)
            .leads_to("get_event", &["event_id"])
            .leads_to("get_execution", &["execution_id"]),
    ]
}

async fn retry_event(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let event_id = events::parse_event_id(&id)?;
    let (parts, body) = request.into_parts();
    let reason = read_reason(&door, &parts.headers, body).await?;
    let by = DecisionRecord { actor: caller.actor.clone(), reason };
    let now = door.clock.now();
    match door.stores.interventions.retry_event(&caller.tenant, event_id, &by, now).await? {
        RetryVerdict::NotFound => Err(RequestRefusal::not_found("event", id)),
        RetryVerdict::NotApplicable { status } => Err(RequestRefusal::new(
            RefusalKind::Conflict,
            format!("the event is {status}; only dead and failed events can be retried"),
        )),
        RetryVerdict::Accepted { execution } => {
            // A dead event is back in the mailbox, failed actions are ready: any free worker takes them.
            door.ring
                .ring_later([Doorbell::Mailbox(execution.clone()), Doorbell::Actions(execution.clone())]);
            door.news.work.notify_one();
            let seen = door.stores.event_views.find_events(&[(caller.tenant, event_id)]).await;
            let status = match seen {
                Ok(views) => views.into_iter().flatten().next().map(|view| view.status),
                Err(_) => None,
            };
            let status = status.unwrap_or(EventStatus::Pending);
            let accepted = views::accepted_event(event_id, &execution, status);
            let mut response = (StatusCode::ACCEPTED, Json(accepted)).into_response();
            if let Ok(location) = HeaderValue::from_str(&format!("/v1/events/{event_id}")) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            Ok(response)
        }
    }
}

#[derive(Serialize)]
struct CancelEventPayload {
    reason: Option<String>,
}

async fn cancel_execution(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    slot: RequestSlot,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let execution = event_draft::parse_execution_key(&caller, &id)?;
    let (parts, body) = request.into_parts();
    let prefer = PreferHeader::of(&parts.headers)?;
    let idempotency_key = idempotency_key::idempotency_header(&parts.headers)?;
    let reason = read_reason(&door, &parts.headers, body).await?;

    let payload = RawJson::from_value(&CancelEventPayload { reason });
    let draft = EventDraft { execution, name: Name::cancel_event(), payload, idempotency_key };
    match check_cancellable(&door, &draft.execution).await {
        Ok(()) => {
            let event = event_draft::new_event(&door.submit, &caller, &trace, draft);
            events::submit_event(&door, &slot, event, prefer, ResponseMode::Async).await
        }
        Err(problem) => events::answer_repeat(&door, &slot, &draft, prefer, problem).await,
    }
}

async fn check_cancellable(door: &IngressState, execution: &ExecutionKey) -> Result<(), RequestRefusal> {
    let view = executions::find_execution(door, execution).await?;
    if view.state.phase.is_ended() {
        let detail = format!("the execution is already {}", view.status);
        return Err(RequestRefusal::new(RefusalKind::Conflict, detail));
    }
    Ok(())
}

/// Reads the optional `{reason}`; the body may be missing.
pub(super) async fn read_reason(
    door: &IngressState,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Option<String>, RequestRefusal> {
    let body = read_optional_body(door, headers, body, BODY_BYTES).await?;
    if body.is_empty() {
        return Ok(None);
    }
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let reason = fields.take_text("reason").map(|text| text.into_owned());
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    Ok(reason)
}

//! Events: post one, read one, list them.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_api::events::{AcceptedEvent, Event, EventToPost};
use millstream_api::page::Page;
use millstream_model::id::{AcceptNo, EventId, ExecutionId, ExecutionKey, Name};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_store::event_log::{AppendRequest, EventSubmission};
use millstream_store::views::{EventFilter, EventView};
use millstream_workflow::definition::ResponseMode;
use millstream_workflow::machine::Machine;

use super::route::{LocationHeader, Route};
use super::views::{self, page_of};
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::gate::RequestSlot;
use crate::http::body::{MediaType, read_body};
use crate::http::event_fields;
use crate::http::fields::JsonFields;
use crate::http::prefer::PreferHeader;
use crate::http::query::QueryParams;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;
use crate::submit::event_draft::{self, EventContent, EventDraft};
use crate::submit::idempotency_key;
use crate::trace::TraceContext;
use crate::wait::{self, OutcomeWait, WaitResult, WaitStart};

/// Size limit of an event's envelope, beside its payload.
const ENVELOPE_BYTES: usize = 16 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/executions/{execution_id}/events", "post_event", post_event)
            .summary("Accept an event for an execution")
            .needs(Permission::PostEvents)
            .headers(&["Idempotency-Key", "Prefer", "Millstream-Validate", "traceparent", "x-request-id"])
            .accepts::<EventToPost>()
            .returns::<AcceptedEvent>(202, "Durable; decided later. A repeat by key returns the same id")
            .returns::<Event>(200, "Durable, and the condition that the caller waited for holds")
            .problems(&[404, 409])
            .located(LocationHeader::Always)
            .leads_to("get_event", &["event_id"])
            .leads_to("retry_event", &["event_id"]),
        Route::get("/v1/events/{event_id}", "get_event", get_event)
            .summary("One event and its outcome")
            .needs(Permission::ReadData)
            .returns::<Event>(200, "The event")
            .problems(&[404]),
        Route::get("/v1/events", "list_events", list_events)
            .summary("Events in the order of acceptance")
            .needs(Permission::ReadData)
            .query(&[
                ("execution_id", "ExecutionId"),
                ("status", "EventStatus"),
                ("limit", "Limit"),
                ("cursor", "Cursor"),
            ])
            .returns::<Page<Event>>(200, "One page"),
    ]
}

async fn post_event(
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
    MediaType::of(&parts.headers, &[MediaType::Json])?;
    let prefer = PreferHeader::of(&parts.headers)?;
    let strictness = EventValidation::of(&parts.headers)?;
    let idempotency_key = idempotency_key::idempotency_header(&parts.headers)?;
    let limits = &door.options.limits;
    let body = read_body(&door, &parts, body, limits.payload_bytes + ENVELOPE_BYTES).await?;

    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let said = event_fields::read_event_content(&mut fields, limits.payload_bytes)?;
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    let Some(EventContent { name, payload }) = said else {
        return Err(RequestRefusal::bad_request("the event has no name"));
    };

    let draft = EventDraft { execution, name, payload, idempotency_key };
    let admitted = match slot.admit_new() {
        Ok(()) => admit_event(&door, &draft, strictness).await,
        Err(problem) => Err(problem),
    };
    match admitted {
        Ok(mode) => {
            let event = event_draft::new_event(&door.submit, &caller, &trace, draft);
            submit_event(&door, &slot, event, prefer, mode).await
        }
        Err(problem) => answer_repeat(&door, &slot, &draft, prefer, problem).await,
    }
}

/// The checks on acceptance. An event that passes them is accepted in the mode of its definition.
async fn admit_event(
    door: &IngressState,
    draft: &EventDraft,
    strictness: EventValidation,
) -> Result<ResponseMode, RequestRefusal> {
    let machine = match event_draft::check_drafts(&door.submit, &[draft]).await?.pop() {
        Some(target) => target?.machine,
        None => return Err(RequestRefusal::new(RefusalKind::Internal, "the event was not checked")),
    };
    if strictness == EventValidation::State {
        check_state_handles(door, &draft.execution, &machine, &draft.name).await?;
    }
    door.admission.admit_events(&draft.execution.tenant, 1, draft.payload.len()).await?;
    Ok(machine.definition().mode())
}

/// The answer to a request that the checks reject: the original answer, if its idempotency key was accepted
/// before.
pub(super) async fn answer_repeat(
    door: &IngressState,
    slot: &RequestSlot,
    draft: &EventDraft,
    prefer: PreferHeader,
    problem: RequestRefusal,
) -> Result<Response, RequestRefusal> {
    let refused = vec![(&draft.execution.tenant, draft.idempotency(), problem)];
    let recalled = event_draft::recall_accepted(&door.submit, refused).await?.pop();
    let (event_id, status) =
        recalled.ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict"))??;
    let known = (event_id, status, WaitStart::Nothing);
    answer_event(door, slot, &draft.execution, known, EventWaitOptions { prefer, mode: ResponseMode::Async })
        .await
}

/// Makes one event durable, waits for its outcome if requested, and answers.
pub(super) async fn submit_event(
    door: &IngressState,
    slot: &RequestSlot,
    event: EventSubmission,
    prefer: PreferHeader,
    mode: ResponseMode,
) -> Result<Response, RequestRefusal> {
    let ear = longest_wait(door, prefer, mode).map(|_| door.news.subscribe_to(event.execution.clone()));
    let mut verdicts = door.accept.submit_batch(vec![AppendRequest::Event(event.clone())]).await?;
    let verdict = verdicts
        .pop()
        .ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict"))?;
    let (event_id, status) = event_draft::accepted_event(&door.submit, &event, verdict)?;
    let since = match (ear, status) {
        (Some(ear), EventStatus::Pending) => WaitStart::Undecided(ear),
        (Some(_) | None, _) => WaitStart::Nothing,
    };
    answer_event(door, slot, &event.execution, (event_id, status, since), EventWaitOptions { prefer, mode })
        .await
}

/// The inputs that decide whether a caller waits.
#[derive(Debug, Clone, Copy)]
struct EventWaitOptions {
    prefer: PreferHeader,
    mode: ResponseMode,
}

/// The answer to a durable event, after its outcome if requested.
async fn answer_event(
    door: &IngressState,
    slot: &RequestSlot,
    execution: &ExecutionKey,
    (event_id, status, since): (EventId, EventStatus, WaitStart),
    EventWaitOptions { prefer, mode }: EventWaitOptions,
) -> Result<Response, RequestRefusal> {
    let accepted = views::accepted_event(event_id, execution, status);
    let longest = longest_wait(door, prefer, mode);
    let mut response = match longest {
        None => (StatusCode::ACCEPTED, Json(accepted)).into_response(),
        Some(longest) => {
            let patience = OutcomeWait { longest, until: prefer.until };
            match wait::wait_for_outcome(&door.waits, slot, execution, event_id, patience, since).await {
                Ok(WaitResult::Met(view)) => (StatusCode::OK, Json(views::event(*view))).into_response(),
                Ok(WaitResult::TimeUp(view)) => {
                    let status = view.map_or(accepted.status, |view| view.status.into());
                    (StatusCode::ACCEPTED, Json(AcceptedEvent { status, ..accepted })).into_response()
                }
                // The event is accepted, even if the store has become unavailable since.
                Err(error) => {
                    tracing::warn!(%error, "store failed during a wait for an event");
                    (StatusCode::ACCEPTED, Json(accepted)).into_response()
                }
            }
        }
    };
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/events/{event_id}")) {
        headers.insert(header::LOCATION, location);
    }
    let applied = longest.and_then(|longest| prefer.preference_applied(longest));
    if let Some(applied) = applied.and_then(|applied| HeaderValue::from_str(&applied).ok()) {
        headers.insert("preference-applied", applied);
    }
    Ok(response)
}

/// How long this caller waits: its `Prefer` header, else the mode of the definition.
pub(super) fn longest_wait(
    door: &IngressState,
    prefer: PreferHeader,
    mode: ResponseMode,
) -> Option<Duration> {
    let by_default = match mode {
        ResponseMode::Async => None,
        ResponseMode::Sync => Some(door.options.sync_wait),
    };
    prefer.granted_wait(by_default, door.options.max_wait)
}

/// How much is checked on acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventValidation {
    /// The execution exists and its definition mentions the event.
    Names,
    /// `Millstream-Validate: state`: the current state must handle the event as well.
    State,
}

impl EventValidation {
    fn of(headers: &HeaderMap) -> Result<Self, RequestRefusal> {
        match headers.get("millstream-validate").map(HeaderValue::as_bytes) {
            None => Ok(Self::Names),
            Some(b"state") => Ok(Self::State),
            Some(_) => Err(RequestRefusal::bad_request("Millstream-Validate supports only \"state\"")),
        }
    }
}

/// The strict check: rejects when no event is undecided and the current state has no handler. While an event
/// is undecided, the state that the new event will meet is unknown, and the event is accepted.
async fn check_state_handles(
    door: &IngressState,
    execution: &ExecutionKey,
    machine: &Machine,
    event: &Name,
) -> Result<(), RequestRefusal> {
    let filter =
        EventFilter { execution: Some(execution.execution.clone()), status: Some(EventStatus::Pending) };
    let undecided = door.stores.event_views.list_events(&execution.tenant, &filter, None, 1).await?;
    if !undecided.is_empty() {
        return Ok(());
    }
    let view = door.stores.execution_views.find_executions(std::slice::from_ref(execution)).await?;
    let Some(view) = view.into_iter().next().flatten() else {
        return Err(RequestRefusal::not_found("execution", &execution.execution));
    };
    if machine.handles_event(&view.state.state, event) {
        return Ok(());
    }
    let detail = format!("the execution is in state {:?}, which does not handle {event:?}", view.state.state);
    Err(RequestRefusal::new(RefusalKind::Conflict, detail))
}

async fn get_event(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<Event<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let event = parse_event_id(&id)?;
    let found = door.stores.event_views.find_events(&[(caller.tenant, event)]).await?;
    let view = found.into_iter().next().flatten().ok_or_else(|| RequestRefusal::not_found("event", &id))?;
    Ok(Json(views::event(view)))
}

/// Parses the event id of a path; text that cannot be an id is answered with 404.
pub(super) fn parse_event_id(id: &str) -> Result<EventId, RequestRefusal> {
    uuid::Uuid::parse_str(id).map(EventId).map_err(|_| RequestRefusal::not_found("event", id))
}

async fn list_events(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<Event<RawJson>>>, RequestRefusal> {
    let filter = EventFilter {
        execution: params.parse_param("execution_id", |text| ExecutionId::parse(text)),
        status: params.parse_word("status", EventStatus::ALL),
    };
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Events, |text| text.parse().ok().map(AcceptNo));
    params.finish_params()?;
    let found = door.stores.event_views.list_events(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &EventView| cursor::encode(CursorList::Events, last.accept_no.0);
    Ok(Json(page_of(found, limit, cursor, views::event)))
}

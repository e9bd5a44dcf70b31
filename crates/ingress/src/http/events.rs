//! Events: post one, read one, list them.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_core::definition::Mode;
use millstream_core::id::{AcceptNo, EventId, ExecutionId, ExecutionKey, Name};
use millstream_core::machine::Machine;
use millstream_core::permission::Permission;
use millstream_core::status::EventStatus;
use millstream_store::event_log::{Append, NewEvent};
use millstream_store::views::{EventFilter, EventView};

use super::posting::{self, Draft, Said};
use super::problem::{Kind, Problem};
use super::route::{Located, Route};
use super::views::{AcceptedOut, EventOut, Page};
use crate::auth::Caller;
use crate::body::{Allowance, Body, Media};
use crate::cursor::{self, List};
use crate::door::Door;
use crate::fields::Fields;
use crate::gate::Slot;
use crate::prefer::Prefer;
use crate::query::Params;
use crate::trace::Trace;
use crate::wait::{self, Patience, Since, Waited};

/// Size limit of an event's envelope, beside its payload.
const ENVELOPE_BYTES: usize = 16 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/executions/{execution_id}/events", "post_event", post)
            .summary("Accept an event for an execution")
            .needs(Permission::PostEvents)
            .headers(&["Idempotency-Key", "Prefer", "Millstream-Validate", "traceparent", "x-request-id"])
            .body("application/json", "NewEvent")
            .answer(202, "AcceptedEvent", "Durable; decided later. A repeat by key returns the same id")
            .answer(200, "Event", "Durable, and the condition that the caller waited for holds")
            .problems(&[404, 409])
            .located(Located::Always)
            .leads_to("get_event", &["event_id"])
            .leads_to("retry_event", &["event_id"]),
        Route::get("/v1/events/{event_id}", "get_event", read)
            .summary("One event and its outcome")
            .needs(Permission::ReadData)
            .answer(200, "Event", "The event")
            .problems(&[404]),
        Route::get("/v1/events", "list_events", list)
            .summary("Events in the order of acceptance")
            .needs(Permission::ReadData)
            .query(&[
                ("execution_id", "ExecutionId"),
                ("status", "EventStatus"),
                ("limit", "Limit"),
                ("cursor", "Cursor"),
            ])
            .answer(200, "EventPage", "One page"),
    ]
}

async fn post(
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
    Media::of(&parts.headers, &[Media::Json])?;
    let prefer = Prefer::of(&parts.headers)?;
    let strictness = Strictness::of(&parts.headers)?;
    let idempotency_key = posting::idempotency_header(&parts.headers)?;
    let limits = &door.options.limits;
    let allowed = Allowance { bytes: limits.payload_bytes + ENVELOPE_BYTES, time: limits.body_timeout };
    let body = Body::read(body, &parts.headers, allowed, &door.bodies.of_caller(&parts.extensions)).await?;

    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let said = posting::said(&mut fields, limits.payload_bytes)?;
    fields.finish().map_err(Problem::invalid)?;
    let Some(Said { name, payload }) = said else {
        return Err(Problem::bad_request("the event has no name"));
    };

    let draft = Draft { execution, name, payload, idempotency_key };
    let admitted = match slot.admit_new() {
        Ok(()) => admit(&door, &draft, strictness).await,
        Err(problem) => Err(problem),
    };
    match admitted {
        Ok(mode) => {
            let event = posting::new_event(&door, &caller, &trace, draft);
            submit(&door, &slot, event, prefer, mode).await
        }
        Err(problem) => repeated(&door, &slot, &draft, prefer, problem).await,
    }
}

/// The checks on acceptance. An event that passes them is accepted in the mode of its definition.
async fn admit(door: &Door, draft: &Draft, strictness: Strictness) -> Result<Mode, Problem> {
    let machine = match posting::check(door, &[draft]).await?.pop() {
        Some(target) => target?.machine,
        None => return Err(Problem::new(Kind::Internal, "the event was not checked")),
    };
    if strictness == Strictness::State {
        fits(door, &draft.execution, &machine, &draft.name).await?;
    }
    door.admit_events(&draft.execution.tenant, 1, draft.payload.len()).await?;
    Ok(machine.definition().mode())
}

/// The answer to a request that the checks reject: the original answer, if its idempotency key was accepted
/// before.
pub(super) async fn repeated(
    door: &Door,
    slot: &Slot,
    draft: &Draft,
    prefer: Prefer,
    problem: Problem,
) -> Result<Response, Problem> {
    let refused = vec![(&draft.execution.tenant, draft.idempotency(), problem)];
    let recalled = posting::recall(door, refused).await?.pop();
    let (event_id, status) =
        recalled.ok_or_else(|| Problem::new(Kind::Internal, "the store gave no verdict"))??;
    let known = (event_id, status, Since::Nothing);
    answer(door, slot, &draft.execution, known, Wish { prefer, mode: Mode::Async }).await
}

/// Makes one event durable, waits for its outcome if requested, and answers.
pub(super) async fn submit(
    door: &Door,
    slot: &Slot,
    event: NewEvent,
    prefer: Prefer,
    mode: Mode,
) -> Result<Response, Problem> {
    let ear = patience(door, prefer, mode).map(|_| door.news.about(event.execution.clone()));
    let mut verdicts = door.accept.submit(vec![Append::Event(event.clone())]).await?;
    let verdict = verdicts.pop().ok_or_else(|| Problem::new(Kind::Internal, "the store gave no verdict"))?;
    let (event_id, status) = posting::verdict(door, &event, verdict)?;
    let since = match (ear, status) {
        (Some(ear), EventStatus::Pending) => Since::Undecided(ear),
        (Some(_) | None, _) => Since::Nothing,
    };
    answer(door, slot, &event.execution, (event_id, status, since), Wish { prefer, mode }).await
}

/// The inputs that decide whether a caller waits.
#[derive(Debug, Clone, Copy)]
struct Wish {
    prefer: Prefer,
    mode: Mode,
}

/// The answer to a durable event, after its outcome if requested.
async fn answer(
    door: &Door,
    slot: &Slot,
    execution: &ExecutionKey,
    (event_id, status, since): (EventId, EventStatus, Since),
    Wish { prefer, mode }: Wish,
) -> Result<Response, Problem> {
    let accepted = AcceptedOut { event_id, execution_id: execution.execution.clone(), status };
    let longest = patience(door, prefer, mode);
    let mut response = match longest {
        None => (StatusCode::ACCEPTED, Json(accepted)).into_response(),
        Some(longest) => {
            let patience = Patience { longest, until: prefer.until };
            match wait::outcome(door, slot, execution, event_id, patience, since).await {
                Ok(Waited::Met(view)) => (StatusCode::OK, Json(EventOut::from(*view))).into_response(),
                Ok(Waited::TimeUp(view)) => {
                    let status = view.map_or(accepted.status, |view| view.status);
                    (StatusCode::ACCEPTED, Json(AcceptedOut { status, ..accepted })).into_response()
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
    let applied = longest.and_then(|longest| prefer.applied(longest));
    if let Some(applied) = applied.and_then(|applied| HeaderValue::from_str(&applied).ok()) {
        headers.insert("preference-applied", applied);
    }
    Ok(response)
}

/// How long this caller waits: its `Prefer` header, else the mode of the definition.
pub(super) fn patience(door: &Door, prefer: Prefer, mode: Mode) -> Option<Duration> {
    let by_default = match mode {
        Mode::Async => None,
        Mode::Sync => Some(door.options.sync_wait),
    };
    prefer.patience(by_default, door.options.max_wait)
}

/// How much is checked on acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// The execution exists and its definition mentions the event.
    Names,
    /// `Millstream-Validate: state`: the current state must handle the event as well.
    State,
}

impl Strictness {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        match headers.get("millstream-validate").map(HeaderValue::as_bytes) {
            None => Ok(Self::Names),
            Some(b"state") => Ok(Self::State),
            Some(_) => Err(Problem::bad_request("Millstream-Validate supports only \"state\"")),
        }
    }
}

/// The strict check: rejects when no event is undecided and the current state has no handler. While an event
/// is undecided, the state that the new event will meet is unknown, and the event is accepted.
async fn fits(door: &Door, execution: &ExecutionKey, machine: &Machine, event: &Name) -> Result<(), Problem> {
    let filter =
        EventFilter { execution: Some(execution.execution.clone()), status: Some(EventStatus::Pending) };
    let undecided = door.stores.event_views.list_events(&execution.tenant, &filter, None, 1).await?;
    if !undecided.is_empty() {
        return Ok(());
    }
    let view = door.stores.execution_views.executions(std::slice::from_ref(execution)).await?;
    let Some(view) = view.into_iter().next().flatten() else {
        return Err(Problem::not_found("execution", &execution.execution));
    };
    if machine.handles(&view.state.state, event) {
        return Ok(());
    }
    let detail = format!("the execution is in state {:?}, which does not handle {event:?}", view.state.state);
    Err(Problem::new(Kind::Conflict, detail))
}

async fn read(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<EventOut>, Problem> {
    params.finish()?;
    let event = event_of(&id)?;
    let found = door.stores.event_views.events(&[(caller.tenant, event)]).await?;
    let view = found.into_iter().next().flatten().ok_or_else(|| Problem::not_found("event", &id))?;
    Ok(Json(view.into()))
}

/// Parses the event id of a path; text that cannot be an id is answered with 404.
pub(super) fn event_of(id: &str) -> Result<EventId, Problem> {
    uuid::Uuid::parse_str(id).map(EventId).map_err(|_| Problem::not_found("event", id))
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<EventOut>>, Problem> {
    let filter = EventFilter {
        execution: params.parsed("execution_id", |text| ExecutionId::parse(text)),
        status: params.word("status", EventStatus::ALL),
    };
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Events, |text| text.parse().ok().map(AcceptNo));
    params.finish()?;
    let found = door.stores.event_views.list_events(&caller.tenant, &filter, after, limit + 1).await?;
    let cursor = |last: &EventView| cursor::encode(List::Events, last.accept_no.0);
    Ok(Json(Page::of(found, limit, cursor, EventOut::from)))
}

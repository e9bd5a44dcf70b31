//! Signals: events that are addressed by correlation, and buffered while no execution has the correlation.
//!
//! If exactly one execution has the correlation, the event's name is checked against its definition as for
//! any other event. The store chooses the execution in the commit that accepts the signal.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_api::signals::{
    DeliveredSignal, NewSignal, Signal, SignalAccepted, SignalStatus, WaitingSignal,
};
use millstream_model::id::{EventId, ExecutionKey, Name, TenantId};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_model::{duration, entropy};
use millstream_store::event_log::{AppendRequest, Appended, IdempotencyKey, SignalSubmission};
use millstream_store::relations::SignalView;
use millstream_store::views::EventView;
use millstream_stream::doorbell::Doorbell;
use millstream_workflow::machine::check_correlation;

use super::route::{LocationHeader, Route};
use crate::accept::AppendVerdict;
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::http::body::{MediaType, read_body};
use crate::http::event_fields;
use crate::http::fields::JsonFields;
use crate::http::query::QueryParams;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::request_hash::hash_parts;
use crate::state::IngressState;
use crate::submit::event_draft::{self, EventContent};
use crate::submit::idempotency_key;
use crate::trace::TraceContext;

const ENVELOPE_BYTES: usize = 16 * 1024;
const DEFAULT_WAIT: Duration = Duration::from_secs(86_400);
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 86_400);

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/signals", "post_signal", post_signal)
            .summary("Accept an event for the execution that has a correlation, now or within `wait_for`")
            .needs(Permission::PostEvents)
            .headers(&["Idempotency-Key", "traceparent", "x-request-id"])
            .accepts::<NewSignal>()
            .returns::<SignalAccepted>(202, "Durable: delivered or buffered; a repeat returns the same id")
            .problems(&[409])
            .located(LocationHeader::Always)
            .leads_to("get_signal", &["signal_id"]),
        Route::get("/v1/signals/{signal_id}", "get_signal", get_signal)
            .summary("The status of a signal")
            .needs(Permission::ReadData)
            .returns::<Signal>(200, "The signal; once delivered it is the event of the same id")
            .problems(&[404]),
    ]
}

/// A well-formed signal of a client.
#[derive(Debug)]
struct SignalDraft {
    correlation: String,
    definition: Option<Name>,
    said: EventContent,
    wait: Duration,
    idempotency_key: Option<String>,
}

impl SignalDraft {
    /// `wait_for` is not part of the hash.
    fn idempotency(&self) -> Option<IdempotencyKey> {
        let key = self.idempotency_key.clone()?;
        let definition = self.definition.as_ref().map_or("", Name::as_str);
        let request_hash = hash_parts(&[
            b"signal",
            self.correlation.as_bytes(),
            definition.as_bytes(),
            self.said.name.as_str().as_bytes(),
            self.said.payload.as_str().as_bytes(),
        ]);
        Some(IdempotencyKey { key, request_hash })
    }
}

async fn post_signal(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    slot: RequestSlot,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let (parts, body) = request.into_parts();
    MediaType::of(&parts.headers, &[MediaType::Json])?;
    let idempotency_key = idempotency_key::idempotency_header(&parts.headers)?;
    let limits = &door.options.limits;
    let body = read_body(&door, &parts, body, limits.payload_bytes + ENVELOPE_BYTES).await?;
    let draft = read_signal(body.json()?, limits.payload_bytes, idempotency_key)?;

    let admitted = match slot.admit_new() {
        Ok(()) => admit_signal(&door, &caller, &draft).await,
        Err(problem) => Err(problem),
    };
    let accepted = match admitted {
        Ok(()) => submit_signal(&door, &caller, &trace, draft).await?,
        Err(problem) => {
            let refused = vec![(&caller.tenant, draft.idempotency(), problem)];
            let recalled = event_draft::recall_accepted(&door.submit, refused).await?.pop();
            let (signal_id, _) = recalled.ok_or_else(no_verdict)??;
            repeated_signal(&door, &caller, signal_id).await?
        }
    };
    let location = format!("/v1/signals/{}", accepted.signal_id);
    let mut response = (StatusCode::ACCEPTED, Json(accepted)).into_response();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn read_signal(
    text: &str,
    payload_limit: usize,
    idempotency_key: Option<String>,
) -> Result<SignalDraft, RequestRefusal> {
    let mut fields = JsonFields::of(text, "").map_err(RequestRefusal::invalid)?;
    let correlation = fields.required_text("correlation");
    let correlation = fields
        .parse_text("correlation", correlation, |text| check_correlation(text).map(|()| text.to_owned()));
    let said = event_fields::read_event_content(&mut fields, payload_limit)?;
    let definition = fields.take_text("definition");
    let definition = fields.parse_text("definition", definition, |text| Name::parse(text));
    let wait = fields.take_text("wait_for");
    let wait = fields.parse_text("wait_for", wait, parse_wait_for).unwrap_or(DEFAULT_WAIT);
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    match (correlation, said) {
        (Some(correlation), Some(said)) => {
            Ok(SignalDraft { correlation, definition, said, wait, idempotency_key })
        }
        (None, _) | (_, None) => Err(RequestRefusal::bad_request("the signal has no correlation or no name")),
    }
}

fn parse_wait_for(text: &str) -> Result<Duration, Cow<'static, str>> {
    match duration::parse(text) {
        Ok(wait) if wait <= LONGEST_WAIT => Ok(wait),
        Ok(_) => Err("is longer than 30d".into()),
        Err(duration::InvalidDuration::Syntax(_)) => {
            Err("is not a duration (write it like 250ms, 15s, 30m, 12h, 30d or 1h30m)".into())
        }
        Err(duration::InvalidDuration::TooLong(_)) => Err("is longer than 30d".into()),
        Err(duration::InvalidDuration::Zero(_)) => Err("must be greater than zero".into()),
    }
}

/// Rejects a signal that no execution could take: a reserved name, or a name that the definition of the only
/// execution with this correlation does not mention.
async fn admit_signal(
    door: &IngressState,
    caller: &TenantCaller,
    draft: &SignalDraft,
) -> Result<(), RequestRefusal> {
    let (tenant, name) = (&caller.tenant, &draft.said.name);
    event_draft::check_unreserved(name)?;
    door.admission.admit_events(tenant, 1, draft.said.payload.len()).await?;
    let definition = draft.definition.as_ref();
    let found = door.stores.relations.find_correlated(tenant, &draft.correlation, definition, 2).await?;
    let [(_, definition)] = found.as_slice() else { return Ok(()) };
    match door.machines.find_machine(tenant, &definition.name, Some(definition.version)).await? {
        Some((_, machine)) => event_draft::check_mentioned(&machine, name),
        None => {
            tracing::error!(%definition, "definition of an execution is missing in the store");
            Err(RequestRefusal::new(RefusalKind::Internal, "the definition cannot be read"))
        }
    }
}

async fn submit_signal(
    door: &IngressState,
    caller: &TenantCaller,
    trace: &TraceContext,
    draft: SignalDraft,
) -> Result<SignalAccepted, RequestRefusal> {
    let now = door.clock.now();
    let signal_id = entropy::signal_id(entropy::event_id(now, &*door.entropy));
    let idempotency = draft.idempotency();
    let SignalDraft { correlation, definition, said, wait, idempotency_key: _ } = draft;
    let signal = SignalSubmission {
        event_id: signal_id,
        tenant: caller.tenant.clone(),
        correlation,
        definition,
        name: said.name,
        payload: said.payload,
        idempotency,
        actor: caller.actor.clone(),
        traceparent: Some(trace.traceparent.to_string()),
        expires_at: now.plus(wait),
    };
    let mut verdicts = door.accept.submit_batch(vec![AppendRequest::Signal(Box::new(signal))]).await?;
    match verdicts.pop().ok_or_else(no_verdict)? {
        AppendVerdict::Stored(Appended::Delivered { execution, accept_no: _ }) => {
            Ok(accepted_signal(signal_id, SignalStatus::Delivered, Some(&execution)))
        }
        AppendVerdict::Stored(Appended::Buffered) => {
            Ok(accepted_signal(signal_id, SignalStatus::Buffered, None))
        }
        AppendVerdict::Stored(Appended::Repeat { event_id, .. }) => {
            repeated_signal(door, caller, event_id).await
        }
        AppendVerdict::Stored(Appended::Ambiguous { executions }) => {
            let detail = format!(
                "{executions} executions have this correlation, a signal goes to one; name its `definition`, \
                 or post the event to the execution itself"
            );
            Err(RequestRefusal::new(RefusalKind::Conflict, detail))
        }
        AppendVerdict::Stored(Appended::Mismatch) => Err(event_draft::key_reused()),
        // These answer events and starts only.
        AppendVerdict::Stored(Appended::Accepted { .. } | Appended::NoExecution) | AppendVerdict::Refused => {
            Err(RequestRefusal::new(RefusalKind::Internal, "the store cannot take this signal"))
        }
    }
}

fn accepted_signal(
    signal_id: EventId,
    status: SignalStatus,
    execution: Option<&ExecutionKey>,
) -> SignalAccepted {
    SignalAccepted {
        signal_id: signal_id.to_string(),
        status,
        execution_id: execution.map(|key| key.execution.to_string()),
    }
}

fn no_verdict() -> RequestRefusal {
    RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict")
}

/// The answer to a signal that was accepted before. If it is undecided, its doorbell is rung again: the first
/// answer may have been lost together with the doorbell. A signal that is not found any more is reported as
/// expired.
async fn repeated_signal(
    door: &IngressState,
    caller: &TenantCaller,
    signal_id: EventId,
) -> Result<SignalAccepted, RequestRefusal> {
    let (status, execution) = match locate_signal(door, &caller.tenant, signal_id).await? {
        Some(StoredSignal::Waiting(signal)) => (signal_status(&signal, door.clock.now()), None),
        Some(StoredSignal::Event(event)) => {
            if event.status == EventStatus::Pending {
                door.ring.ring_later([Doorbell::Mailbox(event.execution.clone())]);
            }
            (SignalStatus::Delivered, Some(event.execution))
        }
        None => (SignalStatus::Expired, None),
    };
    Ok(accepted_signal(signal_id, status, execution.as_ref()))
}

async fn get_signal(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<Signal<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let nothing = || RequestRefusal::not_found("signal", &id);
    let signal_id = uuid::Uuid::parse_str(&id).map(EventId).map_err(|_| nothing())?;
    if !entropy::is_signal(signal_id) {
        return Err(nothing());
    }
    let found = locate_signal(&door, &caller.tenant, signal_id).await?.ok_or_else(nothing)?;
    Ok(Json(show_signal(signal_id, found, door.clock.now())))
}

fn show_signal(signal_id: EventId, stored: StoredSignal, now: Timestamp) -> Signal<RawJson> {
    let signal_id = signal_id.to_string();
    match stored {
        StoredSignal::Waiting(signal) => Signal::Waiting(WaitingSignal {
            signal_id,
            status: signal_status(&signal, now),
            name: signal.name.to_string(),
            payload: signal.payload,
            actor: signal.actor,
            created_at: signal.created_at,
            correlation: signal.correlation,
            definition: signal.definition.map(|definition| definition.to_string()),
            expires_at: signal.expires_at,
        }),
        StoredSignal::Event(event) => Signal::Delivered(DeliveredSignal {
            signal_id,
            status: SignalStatus::Delivered,
            name: event.name.to_string(),
            payload: event.payload,
            actor: event.actor,
            created_at: event.created_at,
            event_id: event.event_id.to_string(),
            execution_id: event.execution.execution.to_string(),
            event_status: event.status.into(),
        }),
    }
}

/// Where a signal is stored.
enum StoredSignal {
    Waiting(SignalView),
    Event(Box<EventView>),
}

/// Searches the events last, so that a signal that is delivered between the two queries is found.
async fn locate_signal(
    door: &IngressState,
    tenant: &TenantId,
    id: EventId,
) -> Result<Option<StoredSignal>, RequestRefusal> {
    let key = [(tenant.clone(), id)];
    if let Some(signal) = door.stores.relations.find_signals(&key).await?.into_iter().next().flatten() {
        return Ok(Some(StoredSignal::Waiting(signal)));
    }
    let event = door.stores.event_views.find_events(&key).await?.into_iter().next().flatten();
    Ok(event.map(|event| StoredSignal::Event(Box::new(event))))
}

fn signal_status(signal: &SignalView, now: Timestamp) -> SignalStatus {
    if signal.expires_at > now { SignalStatus::Buffered } else { SignalStatus::Expired }
}

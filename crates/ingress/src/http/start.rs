//! Starts executions: one, or an array ([`start_batch`]).
//!
//! Creation is decided in the ingress (see `docs/decisions/creation-at-the-door.md`): seq 1 depends only on
//! the definition and the input, so the execution, its first transition, its timers and its initial events
//! are one append.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_api::events::AcceptedEvent;
use millstream_api::executions::{Execution, ExecutionsToStart, StartedExecutions};
use millstream_model::context::ExecutionContext;
use millstream_model::id::{EventId, ExecutionId, ExecutionKey, Name};
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::RawJson;
use millstream_model::status::{EventStatus, ExecutionStatus, PauseState};
use millstream_store::event_log::{AppendRequest, Appended, IdempotencyKey};
use millstream_workflow::log::ExecutionState as Folded;

use super::events::longest_wait;
use super::route::{LocationHeader, Route};
use super::{executions, start_batch, views};
use crate::accept::AppendVerdict;
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::http::body::{MediaType, read_body};
use crate::http::event_fields;
use crate::http::fields::JsonFields;
use crate::http::prefer::PreferHeader;
use crate::http::query::QueryParams;
use crate::options::IngressLimits;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::request_hash::hash_parts;
use crate::state::IngressState;
use crate::submit::event_draft;
use crate::submit::idempotency_key;
use crate::submit::start_decision::{
    self, ExecutionIdSource, PendingStart, ReadyStart, StartRequest, input_hash,
};
use crate::trace::TraceContext;
use crate::wait::{self, OutcomeWait, WaitStart};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/executions", "start_execution", start_execution)
            .summary("Start an execution, or an array of them, each with its first events in one commit")
            .needs(Permission::PostEvents)
            .headers(&["Idempotency-Key", "Prefer", "traceparent", "x-request-id"])
            .accepts::<ExecutionsToStart>()
            .returns::<StartedExecutions>(201, "Created; of an array: at least one was")
            .returns::<StartedExecutions>(200, "Existed with the same input; of an array: no item was new")
            .returns::<AcceptedEvent>(202, "Started before by this key, and removed by retention since")
            .problems(&[404, 409])
            .located(LocationHeader::OfOne)
            .leads_to("get_execution", &["execution_id"])
            .leads_to("get_history", &["execution_id"])
            .leads_to("get_actions", &["execution_id"])
            .leads_to("get_timers", &["execution_id"])
            .leads_to("tail_execution", &["execution_id"])
            .leads_to("post_event", &["execution_id"])
            .leads_to("cancel_execution", &["execution_id"]),
    ]
}

async fn start_execution(
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
    let prefer = PreferHeader::of(&parts.headers)?;
    let key = idempotency_key::idempotency_header(&parts.headers)?;
    let limits = &door.options.limits;
    let body = read_body(&door, &parts, body, limits.batch_bytes).await?;
    let text = body.text()?;
    if text.trim_start().starts_with('[') {
        if key.is_some() {
            return Err(RequestRefusal::bad_request(
                "an array of starts takes no Idempotency-Key; give each an execution_id",
            ));
        }
        return start_batch::start_many(&door, &caller, &trace, text).await;
    }

    let wish = read_start(body.json()?, "", limits)?;
    let idempotency = key.map(|key| IdempotencyKey { key, request_hash: request_hash(&wish) });
    let execution = match (&wish.execution_id, &idempotency) {
        (Some(id), _) => Some(id.clone()),
        (None, Some(idempotency)) => {
            Some(event_draft::execution_id_of_key(&caller.tenant, &idempotency.key)?)
        }
        (None, None) => None,
    };
    let ready = admit_and_decide(&door, &caller, &trace, &slot, wish, idempotency.clone()).await;
    let ready = match (ready, execution) {
        (Ok(ready), _) => ready,
        // Rejected by the checks; a start that this key made before still gets its original answer.
        (Err(problem), Some(execution)) => {
            let refused = vec![(&caller.tenant, idempotency, problem)];
            let recalled = event_draft::recall_accepted(&door.submit, refused).await?.pop();
            let (event_id, status) = recalled
                .ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict"))??;
            let key = ExecutionKey { tenant: caller.tenant.clone(), execution };
            return answer_existing(&door, &key, event_id, status).await;
        }
        (Err(problem), None) => return Err(problem),
    };
    let last_events: Vec<EventId> = ready.new.events.iter().map(|event| event.event_id).collect();
    let mut verdicts =
        door.accept.submit_batch(vec![AppendRequest::Start(Box::new(ready.new.clone()))]).await?;
    let verdict = verdicts
        .pop()
        .ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict"))?;
    if let AppendVerdict::Stored(Appended::Repeat { event_id, status }) = &verdict {
        return answer_existing(&door, &ready.new.key, *event_id, *status).await;
    }
    let (status, mut shown) = conclude_start(&door, &ready, verdict).await?;

    let longest = longest_wait(&door, prefer, ready.mode).filter(|_| status == StartOutcome::Created);
    if let Some(longest) = longest
        && !last_events.is_empty()
    {
        let begun = tokio::time::Instant::now();
        for event in last_events {
            let patience =
                OutcomeWait { longest: longest.saturating_sub(begun.elapsed()), until: prefer.until };
            if let Err(error) = wait::wait_for_outcome(
                &door.waits,
                &slot,
                &ready.new.key,
                event,
                patience,
                WaitStart::Nothing,
            )
            .await
            {
                tracing::warn!(%error, "store failed during a wait for an execution");
                break;
            }
        }
        if let Ok(view) = executions::find_execution(&door, &ready.new.key).await {
            shown = views::execution(view);
        }
    }
    let mut response = with_location((status.status_code(), Json(shown)), &ready.new.key);
    let applied = longest.and_then(|longest| prefer.preference_applied(longest));
    if let Some(applied) = applied.and_then(|applied| HeaderValue::from_str(&applied).ok()) {
        response.headers_mut().insert("preference-applied", applied);
    }
    Ok(response)
}

/// Admission comes before evaluation: a tenant over its quota costs no evaluation.
async fn admit_and_decide(
    door: &IngressState,
    caller: &TenantCaller,
    trace: &TraceContext,
    slot: &RequestSlot,
    wish: StartRequest,
    idempotency: Option<IdempotencyKey>,
) -> Result<ReadyStart, RequestRefusal> {
    let found = start_decision::find_start_machine(&door.submit, caller, &wish).await?;
    let pending = PendingStart::new(&door.submit, caller, wish, idempotency, found)?;
    slot.admit_new()?;
    door.admission.admit_start(&caller.tenant, pending.charge()).await?;
    let decided = start_decision::decide_starts(&door.submit, caller, trace, vec![pending]).await.pop();
    decided.ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the start was not decided"))?
}

/// The answer to a start that was accepted before: the execution, or, if retention has removed it, the data
/// that remains of its start.
async fn answer_existing(
    door: &IngressState,
    key: &ExecutionKey,
    event_id: EventId,
    status: EventStatus,
) -> Result<Response, RequestRefusal> {
    match executions::find_execution(door, key).await {
        Ok(view) => Ok(with_location((StatusCode::OK, Json(views::execution(view))), key)),
        Err(problem) if problem.kind == RefusalKind::NotFound => {
            let accepted = views::accepted_event(event_id, key, status);
            Ok(with_location((StatusCode::ACCEPTED, Json(accepted)), key))
        }
        Err(problem) => Err(problem),
    }
}

fn with_location(answer: impl IntoResponse, key: &ExecutionKey) -> Response {
    let mut response = answer.into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/executions/{}", key.execution)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

pub(super) fn read_start(
    text: &str,
    path: &str,
    limits: &IngressLimits,
) -> Result<StartRequest, RequestRefusal> {
    let mut fields = JsonFields::of(text, path).map_err(RequestRefusal::invalid)?;
    let definition = fields.required_text("definition");
    let definition = fields.parse_text("definition", definition, |text| Name::parse(text));
    let version = fields.take_field("version");
    let version = version.and_then(|text| match text.parse::<i32>() {
        Ok(version) if version >= 1 => Some(version),
        Ok(_) | Err(_) => {
            fields.add_fault("version", "must be a whole number from 1 on");
            None
        }
    });
    let id = fields.take_text("execution_id");
    let execution_id = fields.parse_text("execution_id", id, |text| ExecutionId::parse(text));
    let input =
        event_fields::read_bounded(&mut fields, "input", limits.payload_bytes)?.unwrap_or_else(RawJson::null);
    let mut events = Vec::new();
    if let Some(list) = fields.take_field("events") {
        let base = fields.path_of("events");
        let items = crate::http::fields::split_array(list, limits.batch_items);
        match items {
            Err(_) => fields
                .add_fault("events", format!("must be an array of at most {} events", limits.batch_items)),
            Ok(items) => {
                for (at, item) in items.into_iter().enumerate() {
                    match JsonFields::of(item, &format!("{base}[{at}]")) {
                        Err(faults) => fields.add_faults(faults),
                        Ok(mut event) => {
                            events
                                .extend(event_fields::read_event_content(&mut event, limits.payload_bytes)?);
                            if let Err(faults) = event.finish_fields() {
                                fields.add_faults(faults);
                            }
                        }
                    }
                }
            }
        }
    }
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    let Some(definition) = definition else {
        return Err(RequestRefusal::invalid(vec![Fault::new(path, "is incomplete")]));
    };
    Ok(StartRequest { definition, version, execution_id, input, events })
}

/// The same with an idempotency key, which may be sent together with an id.
fn request_hash(wish: &StartRequest) -> [u8; 32] {
    let id = wish.execution_id.as_ref().map_or("", ExecutionId::as_str);
    hash_parts(&[b"start", id.as_bytes(), &input_hash(wish)])
}

/// Whether the start created an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartOutcome {
    Created,
    Existed,
}

impl StartOutcome {
    const fn status_code(self) -> StatusCode {
        match self {
            Self::Created => StatusCode::CREATED,
            Self::Existed => StatusCode::OK,
        }
    }
}

pub(super) async fn conclude_start(
    door: &IngressState,
    ready: &ReadyStart,
    verdict: AppendVerdict,
) -> Result<(StartOutcome, Execution<ExecutionContext>), RequestRefusal> {
    let key = &ready.new.key;
    match verdict {
        AppendVerdict::Stored(Appended::Accepted { .. }) => {
            door.machines.remember_target(key.clone(), ready.new.definition.clone());
            let Folded { state, phase, context, seq, reason, at, parent, correlation, .. } =
                ready.new.state.clone();
            let execution = Execution {
                execution_id: key.execution.to_string(),
                definition: ready.new.definition.name.to_string(),
                version: ready.new.definition.version,
                state: state.to_string(),
                status: ExecutionStatus::of_phase(phase, PauseState::Running).into(),
                context,
                seq: seq.0,
                created_at: at,
                updated_at: at,
                reason,
                parent: parent.map(views::parent_action),
                correlation,
            };
            Ok((StartOutcome::Created, execution))
        }
        AppendVerdict::Stored(Appended::Repeat { .. }) => {
            Ok((StartOutcome::Existed, views::execution(executions::find_execution(door, key).await?)))
        }
        AppendVerdict::Stored(Appended::Mismatch) => Err(start_mismatch(door, ready).await?),
        AppendVerdict::Stored(
            Appended::NoExecution
            | Appended::Delivered { .. }
            | Appended::Buffered
            | Appended::Ambiguous { .. },
        )
        | AppendVerdict::Refused => {
            Err(RequestRefusal::new(RefusalKind::Internal, "the store cannot take this execution"))
        }
    }
}

/// Tells a reused idempotency key from an execution id that exists with other content.
async fn start_mismatch(door: &IngressState, ready: &ReadyStart) -> Result<RequestRefusal, RequestRefusal> {
    let (key, idempotency) = (&ready.new.key, &ready.new.start.idempotency);
    let reused = match (ready.id_from, idempotency) {
        (ExecutionIdSource::Key, _) => true,
        (ExecutionIdSource::Caller | ExecutionIdSource::Chance, None) => false,
        (ExecutionIdSource::Caller | ExecutionIdSource::Chance, Some(idempotency)) => {
            let asked = (key.tenant.clone(), idempotency.clone());
            door.stores.events.find_accepted(&[asked]).await? == [Some(Appended::Mismatch)]
        }
    };
    Ok(if reused {
        RequestRefusal::new(
            RefusalKind::KeyReused,
            "this idempotency key was used before with another request",
        )
    } else {
        let id = key.execution.as_str();
        RequestRefusal::new(
            RefusalKind::Conflict,
            format!("execution {id:?} exists with another definition, input or events"),
        )
    })
}

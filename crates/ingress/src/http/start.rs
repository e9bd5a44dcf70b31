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
use millstream_core::id::{EventId, ExecutionId, ExecutionKey, Name};
use millstream_core::log::State as Folded;
use millstream_core::permission::Permission;
use millstream_core::problem::Problem as Fault;
use millstream_core::raw::RawJson;
use millstream_core::status::{EventStatus, ExecutionStatus, PauseState};
use millstream_store::event_log::{Append, Appended, Idempotency};

use super::events::patience;
use super::posting;
use super::problem::{Kind, Problem};
use super::route::{Located, Route};
use super::start_decision::{self, IdFrom, PendingStart, ReadyStart, Wish, input_hash};
use super::views::{AcceptedOut, ExecutionOut, ParentOut};
use super::{executions, start_batch};
use crate::accept::Verdict;
use crate::auth::Caller;
use crate::body::{Allowance, Body, Media};
use crate::door::Door;
use crate::fields::Fields;
use crate::gate::Slot;
use crate::options::Limits;
use crate::prefer::Prefer;
use crate::query::Params;
use crate::trace::Trace;
use crate::wait::{self, Patience, Since};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/executions", "start_execution", start)
            .summary("Start an execution, or an array of them, each with its first events in one commit")
            .needs(Permission::PostEvents)
            .headers(&["Idempotency-Key", "Prefer", "traceparent", "x-request-id"])
            .body("application/json", "StartRequest")
            .answer(201, "ExecutionOrVerdicts", "Created; of an array: at least one was")
            .answer(200, "ExecutionOrVerdicts", "Existed with the same input; of an array: no item was new")
            .answer(202, "AcceptedEvent", "Started before by this key, and removed by retention since")
            .problems(&[404, 409])
            .located(Located::OfOne)
            .leads_to("get_execution", &["execution_id"])
            .leads_to("get_history", &["execution_id"])
            .leads_to("get_actions", &["execution_id"])
            .leads_to("get_timers", &["execution_id"])
            .leads_to("tail_execution", &["execution_id"])
            .leads_to("post_event", &["execution_id"])
            .leads_to("cancel_execution", &["execution_id"]),
    ]
}

async fn start(
    State(door): State<Arc<Door>>,
    caller: Caller,
    trace: Trace,
    slot: Slot,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let (parts, body) = request.into_parts();
    Media::of(&parts.headers, &[Media::Json])?;
    let prefer = Prefer::of(&parts.headers)?;
    let key = posting::idempotency_header(&parts.headers)?;
    let limits = &door.options.limits;
    let allowed = Allowance { bytes: limits.batch_bytes, time: limits.body_timeout };
    let body = Body::read(body, &parts.headers, allowed, &door.bodies.of_caller(&parts.extensions)).await?;
    let text = body.text()?;
    if text.trim_start().starts_with('[') {
        if key.is_some() {
            return Err(Problem::bad_request(
                "an array of starts takes no Idempotency-Key; give each an execution_id",
            ));
        }
        return start_batch::start_many(&door, &caller, &trace, text).await;
    }

    let wish = wish(body.json()?, "", limits)?;
    let idempotency = key.map(|key| Idempotency { key, request_hash: request_hash(&wish) });
    let execution = match (&wish.execution_id, &idempotency) {
        (Some(id), _) => Some(id.clone()),
        (None, Some(idempotency)) => Some(posting::id_of_key(&caller.tenant, &idempotency.key)?),
        (None, None) => None,
    };
    let ready = admit_and_decide(&door, &caller, &trace, &slot, wish, idempotency.clone()).await;
    let ready = match (ready, execution) {
        (Ok(ready), _) => ready,
        // Rejected by the checks; a start that this key made before still gets its original answer.
        (Err(problem), Some(execution)) => {
            let refused = vec![(&caller.tenant, idempotency, problem)];
            let recalled = posting::recall(&door, refused).await?.pop();
            let (event_id, status) =
                recalled.ok_or_else(|| Problem::new(Kind::Internal, "the store gave no verdict"))??;
            let key = ExecutionKey { tenant: caller.tenant.clone(), execution };
            return existed(&door, &key, event_id, status).await;
        }
        (Err(problem), None) => return Err(problem),
    };
    let last_events: Vec<EventId> = ready.new.events.iter().map(|event| event.event_id).collect();
    let mut verdicts = door.accept.submit(vec![Append::Start(Box::new(ready.new.clone()))]).await?;
    let verdict = verdicts.pop().ok_or_else(|| Problem::new(Kind::Internal, "the store gave no verdict"))?;
    if let Verdict::Stored(Appended::Repeat { event_id, status }) = &verdict {
        return existed(&door, &ready.new.key, *event_id, *status).await;
    }
    let (status, mut shown) = conclude(&door, &ready, verdict).await?;

    let longest = patience(&door, prefer, ready.mode).filter(|_| status == StartOutcome::Created);
    if let Some(longest) = longest
        && !last_events.is_empty()
    {
        let begun = tokio::time::Instant::now();
        for event in last_events {
            let patience = Patience { longest: longest.saturating_sub(begun.elapsed()), until: prefer.until };
            if let Err(error) =
                wait::outcome(&door, &slot, &ready.new.key, event, patience, Since::Nothing).await
            {
                tracing::warn!(%error, "store failed during a wait for an execution");
                break;
            }
        }
        if let Ok(view) = executions::find(&door, &ready.new.key).await {
            shown = view.into();
        }
    }
    let mut response = located((status.code(), Json(shown)), &ready.new.key);
    let applied = longest.and_then(|longest| prefer.applied(longest));
    if let Some(applied) = applied.and_then(|applied| HeaderValue::from_str(&applied).ok()) {
        response.headers_mut().insert("preference-applied", applied);
    }
    Ok(response)
}

/// Admission comes before evaluation: a tenant over its quota costs no evaluation.
async fn admit_and_decide(
    door: &Door,
    caller: &Caller,
    trace: &Trace,
    slot: &Slot,
    wish: Wish,
    idempotency: Option<Idempotency>,
) -> Result<ReadyStart, Problem> {
    let found = start_decision::find(door, caller, &wish).await?;
    let pending = PendingStart::new(door, caller, wish, idempotency, found)?;
    slot.admit_new()?;
    door.admit_start(&caller.tenant, pending.charge()).await?;
    let decided = start_decision::decide(door, caller, trace, vec![pending]).await.pop();
    decided.ok_or_else(|| Problem::new(Kind::Internal, "the start was not decided"))?
}

/// The answer to a start that was accepted before: the execution, or, if retention has removed it, the data
/// that remains of its start.
async fn existed(
    door: &Door,
    key: &ExecutionKey,
    event_id: EventId,
    status: EventStatus,
) -> Result<Response, Problem> {
    match executions::find(door, key).await {
        Ok(view) => Ok(located((StatusCode::OK, Json(ExecutionOut::from(view))), key)),
        Err(problem) if problem.kind == Kind::NotFound => {
            let accepted = AcceptedOut { event_id, execution_id: key.execution.clone(), status };
            Ok(located((StatusCode::ACCEPTED, Json(accepted)), key))
        }
        Err(problem) => Err(problem),
    }
}

fn located(answer: impl IntoResponse, key: &ExecutionKey) -> Response {
    let mut response = answer.into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/executions/{}", key.execution)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

pub(super) fn wish(text: &str, path: &str, limits: &Limits) -> Result<Wish, Problem> {
    let mut fields = Fields::of(text, path).map_err(Problem::invalid)?;
    let definition = fields.required("definition");
    let definition = fields.parsed("definition", definition, |text| Name::parse(text));
    let version = fields.take("version");
    let version = version.and_then(|text| match text.parse::<i32>() {
        Ok(version) if version >= 1 => Some(version),
        Ok(_) | Err(_) => {
            fields.fault("version", "must be a whole number from 1 on");
            None
        }
    });
    let id = fields.text("execution_id");
    let execution_id = fields.parsed("execution_id", id, |text| ExecutionId::parse(text));
    let input = posting::bounded(&mut fields, "input", limits.payload_bytes)?.unwrap_or_else(RawJson::null);
    let mut events = Vec::new();
    if let Some(list) = fields.take("events") {
        let base = fields.path_of("events");
        let items = crate::fields::items(list, limits.batch_items);
        match items {
            Err(_) => {
                fields.fault("events", format!("must be an array of at most {} events", limits.batch_items))
            }
            Ok(items) => {
                for (at, item) in items.into_iter().enumerate() {
                    match Fields::of(item, &format!("{base}[{at}]")) {
                        Err(faults) => fields.faults(faults),
                        Ok(mut event) => {
                            events.extend(posting::said(&mut event, limits.payload_bytes)?);
                            if let Err(faults) = event.finish() {
                                fields.faults(faults);
                            }
                        }
                    }
                }
            }
        }
    }
    fields.finish().map_err(Problem::invalid)?;
    let Some(definition) = definition else {
        return Err(Problem::invalid(vec![Fault::new(path, "is incomplete")]));
    };
    Ok(Wish { definition, version, execution_id, input, events })
}

/// The same with an idempotency key, which may be sent together with an id.
fn request_hash(wish: &Wish) -> [u8; 32] {
    let id = wish.execution_id.as_ref().map_or("", ExecutionId::as_str);
    posting::hash(&[b"start", id.as_bytes(), &input_hash(wish)])
}

/// Whether the start created an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartOutcome {
    Created,
    Existed,
}

impl StartOutcome {
    const fn code(self) -> StatusCode {
        match self {
            Self::Created => StatusCode::CREATED,
            Self::Existed => StatusCode::OK,
        }
    }
}

pub(super) async fn conclude(
    door: &Door,
    ready: &ReadyStart,
    verdict: Verdict,
) -> Result<(StartOutcome, ExecutionOut), Problem> {
    let key = &ready.new.key;
    match verdict {
        Verdict::Stored(Appended::Accepted { .. }) => {
            door.machines.started(key.clone(), ready.new.definition.clone());
            let Folded { state, phase, context, seq, reason, at, parent, correlation, .. } =
                ready.new.state.clone();
            let execution = ExecutionOut {
                execution_id: key.execution.clone(),
                definition: ready.new.definition.name.clone(),
                version: ready.new.definition.version,
                state,
                status: ExecutionStatus::of(phase, PauseState::Running),
                context,
                seq,
                created_at: at,
                updated_at: at,
                reason,
                parent: parent.map(ParentOut::from),
                correlation,
            };
            Ok((StartOutcome::Created, execution))
        }
        Verdict::Stored(Appended::Repeat { .. }) => {
            Ok((StartOutcome::Existed, executions::find(door, key).await?.into()))
        }
        Verdict::Stored(Appended::Mismatch) => Err(mismatch(door, ready).await?),
        Verdict::Stored(
            Appended::NoExecution
            | Appended::Delivered { .. }
            | Appended::Buffered
            | Appended::Ambiguous { .. },
        )
        | Verdict::Refused => Err(Problem::new(Kind::Internal, "the store cannot take this execution")),
    }
}

/// Tells a reused idempotency key from an execution id that exists with other content.
async fn mismatch(door: &Door, ready: &ReadyStart) -> Result<Problem, Problem> {
    let (key, idempotency) = (&ready.new.key, &ready.new.start.idempotency);
    let reused = match (ready.id_from, idempotency) {
        (IdFrom::Key, _) => true,
        (IdFrom::Caller | IdFrom::Chance, None) => false,
        (IdFrom::Caller | IdFrom::Chance, Some(idempotency)) => {
            let asked = (key.tenant.clone(), idempotency.clone());
            door.stores.events.seen(&[asked]).await? == [Some(Appended::Mismatch)]
        }
    };
    Ok(if reused {
        Problem::new(Kind::KeyReused, "this idempotency key was used before with another request")
    } else {
        let id = key.execution.as_str();
        Problem::new(
            Kind::Conflict,
            format!("execution {id:?} exists with another definition, input or events"),
        )
    })
}

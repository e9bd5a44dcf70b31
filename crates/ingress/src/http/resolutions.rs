//! Resolution of an incident: retry, retry with an edited input, skip with a result, or end the execution.
//!
//! A resolution is one write: the incident is resolved together with its consequences, so that of two
//! concurrent decisions one gets a conflict that names the other. The doorbells are rung afterwards.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as Incoming;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use millstream_core::action::{self, ErrorClass};
use millstream_core::entropy;
use millstream_core::id::{ActionKey, ExecutionId, ExecutionKey, IncidentId, Name};
use millstream_core::log::Origin;
use millstream_core::machine::{ActionInput, Machine};
use millstream_core::permission::Permission;
use millstream_core::problem::Problem as Fault;
use millstream_core::raw::RawJson;
use millstream_core::status::Resolution;
use millstream_store::event_log::NewEvent;
use millstream_store::incidents::{IncidentView, Resolved, Resolving};
use millstream_store::intervention::Decision;
use millstream_store::views::ActionView;
use millstream_stream::doorbell::Bell;
use serde::Serialize;

use super::incidents::{action_of, find, incident_of};
use super::posting::{self, Draft};
use super::problem::{Kind, Problem};
use super::route::Route;
use super::task_outcomes::MAX_RESULT;
use crate::auth::Caller;
use crate::body::{Allowance, Body, Media};
use crate::door::Door;
use crate::edited;
use crate::fields::Fields;
use crate::query::Params;
use crate::trace::Trace;

/// Size limit of a resolution beside its input or result.
pub(super) const ENVELOPE_BYTES: usize = 32 * 1024;
const REASON_CHARS: usize = 4_000;

pub(super) fn routes() -> Vec<Route> {
    let resolves = |route: Route| {
        let resolved = route.answer(202, "ResolvedIncident", "Recorded; the execution continues, or ends");
        resolved
            .needs(Permission::Operate)
            .problems(&[404, 409])
            .leads_to("get_incident", &["incident_id"])
            .leads_to("get_execution", &["execution_id"])
    };
    vec![
        resolves(Route::post("/v1/incidents/{incident_id}/retry", "retry_incident", retry))
            .summary("Retry the action: under the same key, or with an edited input under a new key")
            .body("application/json", "IncidentRetry")
            .body_optional(),
        resolves(Route::post("/v1/incidents/{incident_id}/skip", "skip_incident", skip))
            .summary("Skip the action as if it had succeeded with this result; a dead event is rejected")
            .body("application/json", "IncidentSkip"),
        resolves(Route::post("/v1/incidents/{incident_id}/fail", "fail_incident", fail))
            .summary("End the execution as failed; recorded as the event millstream.fail")
            .body("application/json", "IncidentDecision")
            .body_optional(),
        resolves(Route::post("/v1/incidents/{incident_id}/cancel", "cancel_incident", cancel))
            .summary("End the execution as cancelled; recorded as the event millstream.cancel")
            .body("application/json", "IncidentDecision")
            .body_optional(),
    ]
}

#[derive(Debug, Serialize)]
struct ResolvedOut {
    incident_id: IncidentId,
    execution_id: ExecutionId,
    resolution: Resolution,
    /// The key of the action that its next attempts carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

async fn retry(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let id = incident_of(&id)?;
    let limit = door.options.limits.payload_bytes;
    let (parts, body) = request.into_parts();
    let body = read(&door, &parts.headers, body, limit + ENVELOPE_BYTES).await?;
    let mut fields = Fields::of(written(&body)?, "").map_err(Problem::invalid)?;
    let reason = reason(&mut fields);
    let input = posting::bounded(&mut fields, "input", limit)?;
    fields.finish().map_err(Problem::invalid)?;

    let incident = undecided(find(&door, &caller, id).await?)?;
    let action = action_of(&door, &incident).await?;
    let how = match input {
        None => Resolving::Retry,
        Some(input) => {
            let Some(action) = &action else {
                return Err(not_of_an_action("input"));
            };
            let kind = kind(&door, &incident, action).await?;
            let input = edited::read(&kind, &action.queue, &input).map_err(Problem::invalid)?;
            Resolving::RetryWith { input }
        }
    };
    let key = action.map(|action| {
        let more = if matches!(how, Resolving::RetryWith { .. }) { 1 } else { 0 };
        action.key.with_revision(action.revision + more)
    });
    resolve(&door, caller, incident, how, reason, key).await
}

async fn skip(
    State(door): State<Arc<Door>>,
    caller: Caller,
    trace: Trace,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let id = incident_of(&id)?;
    let limit = door.options.limits.payload_bytes;
    let (parts, body) = request.into_parts();
    let body = read(&door, &parts.headers, body, limit + ENVELOPE_BYTES).await?;
    let mut fields = Fields::of(written(&body)?, "").map_err(Problem::invalid)?;
    let reason = reason(&mut fields);
    let result = fields.raw_or_null("result");
    fields.finish().map_err(Problem::invalid)?;
    if let Some(result) = result.as_ref().filter(|result| result.len() > MAX_RESULT) {
        let detail = format!("result is {} bytes, at most {MAX_RESULT} are accepted", result.len());
        return Err(Problem::new(Kind::TooLarge, detail));
    }

    let incident = undecided(find(&door, &caller, id).await?)?;
    if incident.class == ErrorClass::Corrupt && incident.action.is_none() {
        let detail = "there is nothing to skip: the execution cannot be read; retry when it can be";
        return Err(Problem::new(Kind::Conflict, detail));
    }
    let how = match (action_of(&door, &incident).await?, result) {
        (Some(action), Some(result)) => {
            let emit = told(&door, &trace, &incident, &action, &result).await?.map(Box::new);
            Resolving::Skip { result, emit }
        }
        (Some(_), None) => {
            let message = "is required: what the action would have returned; null where that does not matter";
            return Err(Problem::invalid(vec![Fault::new("result", message)]));
        }
        (None, None) => Resolving::Skip { result: RawJson::null(), emit: None },
        (None, Some(_)) => return Err(not_of_an_action("result")),
    };
    resolve(&door, caller, incident, how, reason, None).await
}

async fn fail(
    State(door): State<Arc<Door>>,
    caller: Caller,
    trace: Trace,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    end(&door, caller, &trace, &id, request, Ending::Fail).await
}

async fn cancel(
    State(door): State<Arc<Door>>,
    caller: Caller,
    trace: Trace,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    end(&door, caller, &trace, &id, request, Ending::Cancel).await
}

async fn end(
    door: &Door,
    caller: Caller,
    trace: &Trace,
    id: &str,
    request: Request,
    ending: Ending,
) -> Result<Response, Problem> {
    let id = incident_of(id)?;
    let (parts, body) = request.into_parts();
    let body = read(door, &parts.headers, body, ENVELOPE_BYTES).await?;
    let mut fields = Fields::of(written(&body)?, "").map_err(Problem::invalid)?;
    let reason = reason(&mut fields);
    fields.finish().map_err(Problem::invalid)?;
    let incident = undecided(find(door, &caller, id).await?)?;
    let how = ending.of(door, &caller, trace, incident.execution.clone(), reason.as_deref());
    resolve(door, caller, incident, how, reason, None).await
}

/// The ways to end an execution by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Fail,
    Cancel,
}

#[derive(Serialize)]
struct EndPayload<'a> {
    reason: Option<&'a str>,
}

impl Ending {
    pub(super) fn of(
        self,
        door: &Door,
        caller: &Caller,
        trace: &Trace,
        execution: ExecutionKey,
        reason: Option<&str>,
    ) -> Resolving {
        let (resolution, name) = match self {
            Self::Fail => (Resolution::Fail, Name::fail()),
            Self::Cancel => (Resolution::Cancel, Name::cancel()),
        };
        let payload = RawJson::of(&EndPayload { reason });
        let draft = Draft { execution, name, payload, idempotency_key: None };
        Resolving::End { resolution, event: Box::new(posting::new_event(door, caller, trace, draft)) }
    }
}

async fn resolve(
    door: &Door,
    caller: Caller,
    incident: IncidentView,
    how: Resolving,
    reason: Option<String>,
    key: Option<String>,
) -> Result<Response, Problem> {
    let (id, resolution) = (incident.id, how.resolution());
    let by = Decision { actor: caller.actor.clone(), reason };
    let now = door.clock.now();
    let verdicts = door.stores.incidents.resolve(&caller.tenant, &[(id, how)], &by, now).await?;
    match verdicts.into_iter().next() {
        Some(Resolved::Done { execution }) => {
            door.ring.ring(bells(&execution));
            door.news.work.notify_one();
            let execution_id = execution.execution;
            let resolved = ResolvedOut { incident_id: id, execution_id, resolution, key };
            Ok((StatusCode::ACCEPTED, Json(resolved)).into_response())
        }
        Some(Resolved::Already { resolution }) => {
            // Actor and time are added if they can be read; the resolution is known in any case.
            undecided(find(door, &caller, id).await?)?;
            Err(Problem::new(Kind::Conflict, format!("the incident was resolved before: {resolution}")))
        }
        Some(Resolved::NotFound) => Err(Problem::not_found("incident", id)),
        None => Err(Problem::new(Kind::Internal, "the store gave no verdict")),
    }
}

/// An event may be in the mailbox again and an action may be ready: any free worker takes them.
pub(super) fn bells(execution: &ExecutionKey) -> [Bell; 2] {
    [Bell::Mailbox(execution.clone()), Bell::Actions(execution.clone())]
}

/// The incident while it is open, or the problem that names the earlier resolution.
fn undecided(incident: IncidentView) -> Result<IncidentView, Problem> {
    let Some(resolved) = &incident.resolved else { return Ok(incident) };
    let by = resolved.actor.as_ref().map(|actor| format!(" by {actor:?}")).unwrap_or_default();
    let why = resolved.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let detail =
        format!("the incident was resolved before: {}{by} at {}{why}", resolved.resolution, resolved.at);
    Err(Problem::new(Kind::Conflict, detail))
}

fn not_of_an_action(field: &str) -> Problem {
    let message = "does not apply: the incident is of an event that could not be decided, not of an action";
    Problem::invalid(vec![Fault::new(field, message)])
}

/// The event that delivers a result given by a person to the execution, if its definition handles it.
async fn told(
    door: &Door,
    trace: &Trace,
    incident: &IncidentView,
    action: &ActionView,
    result: &RawJson,
) -> Result<Option<NewEvent>, Problem> {
    let machine = machine(door, incident).await?;
    let ActionKey { execution, action: name, .. } = &action.key;
    let spec = machine.action(name);
    let key = action.key.with_revision(action.revision);
    let attempts = u32::try_from(action.attempts).unwrap_or(0);
    let emitted = spec.and_then(|spec| action::succeeded(spec, &key, attempts, result));
    Ok(emitted.map(|(event, payload)| NewEvent {
        event_id: entropy::event_id(door.clock.now(), &*door.entropy),
        execution: execution.clone(),
        name: event,
        payload,
        origin: Origin::Posted,
        idempotency: None,
        actor: Some(format!("action:{name}")),
        traceparent: Some(trace.traceparent.to_string()),
    }))
}

/// The kind that an edited input must have: that of the stored input, or of the definition where none could
/// be rendered.
async fn kind(door: &Door, incident: &IncidentView, action: &ActionView) -> Result<String, Problem> {
    let stored = action.input.as_ref().and_then(|input| input.decode::<ActionInput>().ok());
    if let Some(stored) = stored {
        return Ok(stored.kind().to_owned());
    }
    let machine = machine(door, incident).await?;
    let spec = machine.action(&action.key.action);
    spec.map(|spec| spec.kind.word().to_owned())
        .ok_or_else(|| Problem::new(Kind::Conflict, "the engine's own action has no input to be edited"))
}

async fn machine(door: &Door, incident: &IncidentView) -> Result<Arc<Machine>, Problem> {
    let (tenant, definition) = (&incident.execution.tenant, &incident.definition);
    let found = door.machines.find(tenant, &definition.name, Some(definition.version)).await?;
    let (_, machine) = found.ok_or_else(|| {
        tracing::error!(%definition, "definition of an execution is missing in the store");
        Problem::new(Kind::Internal, "the definition cannot be read")
    })?;
    Ok(machine)
}

/// Reads a body that may be missing.
pub(super) async fn read(
    door: &Door,
    headers: &HeaderMap,
    body: Incoming,
    bytes: usize,
) -> Result<Body, Problem> {
    let allowed = Allowance { bytes, time: door.options.limits.body_timeout };
    let body = Body::read(body, headers, allowed, &door.bodies).await?;
    if !body.is_empty() {
        Media::of(headers, &[Media::Json])?;
    }
    Ok(body)
}

pub(super) fn written(body: &Body) -> Result<&str, Problem> {
    if body.is_empty() { Ok("{}") } else { body.json() }
}

/// The reason of the resolution.
pub(super) fn reason(fields: &mut Fields<'_>) -> Option<String> {
    let reason = fields.text("reason")?;
    if reason.chars().count() > REASON_CHARS {
        fields.fault("reason", format!("is longer than {REASON_CHARS} characters"));
        return None;
    }
    Some(reason.into_owned())
}

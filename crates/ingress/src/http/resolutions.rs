//! Resolution of an incident: retry, retry with an edited input, skip with a result, or end the execution.
//!
//! A resolution is one write: the incident is resolved together with its consequences, so that of two
//! concurrent decisions one gets a conflict that names the other. The doorbells are rung afterwards.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use millstream_api::incidents::{IncidentEnding, IncidentResolved, IncidentRetry, IncidentSkip};
use millstream_model::entropy;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{ActionKey, ExecutionKey, Name};
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::RawJson;
use millstream_model::status::IncidentResolution;
use millstream_store::event_log::EventSubmission;
use millstream_store::incidents::{IncidentDecision, IncidentView, ResolveVerdict};
use millstream_store::intervention::DecisionRecord;
use millstream_store::views::ActionRecord;
use millstream_stream::doorbell::Doorbell;
use millstream_workflow::action;
use millstream_workflow::log::EventOrigin;
use millstream_workflow::machine::{ActionInput, Machine};
use serde::Serialize;

use super::incidents::{find_incident, find_incident_action, parse_incident_id};
use super::route::Route;
use crate::auth::TenantCaller;
use crate::http::body::{body_text, read_optional_body};
use crate::http::edited_input;
use crate::http::event_fields;
use crate::http::fields::JsonFields;
use crate::http::query::QueryParams;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;
use crate::submit::event_draft::{self, EventDraft};
use crate::tasks::outcome::MAX_RESULT;
use crate::trace::TraceContext;

/// Size limit of a resolution beside its input or result.
pub(super) const ENVELOPE_BYTES: usize = 32 * 1024;
const REASON_CHARS: usize = 4_000;

pub(super) fn routes() -> Vec<Route> {
    let resolves = |route: Route| {
        let resolved = route.returns::<IncidentResolved>(202, "Recorded; the execution continues, or ends");
        resolved
            .needs(Permission::Operate)
            .problems(&[404, 409])
            .leads_to("get_incident", &["incident_id"])
            .leads_to("get_execution", &["execution_id"])
    };
    vec![
        resolves(Route::post("/v1/incidents/{incident_id}/retry", "retry_incident", retry_incident))
            .summary("Retry the action: under the same key, or with an edited input under a new key")
            .accepts::<IncidentRetry>()
            .body_optional(),
        resolves(Route::post("/v1/incidents/{incident_id}/skip", "skip_incident", skip_incident))
            .summary("Skip the action as if it had succeeded with this result; a dead event is rejected")
            .accepts::<IncidentSkip>(),
        resolves(Route::post("/v1/incidents/{incident_id}/fail", "fail_incident", fail_incident))
            .summary("End the execution as failed; recorded as the event millstream.fail")
            .accepts::<IncidentEnding>()
            .body_optional(),
        resolves(Route::post("/v1/incidents/{incident_id}/cancel", "cancel_incident", cancel_incident))
            .summary("End the execution as cancelled; recorded as the event millstream.cancel")
            .accepts::<IncidentEnding>()
            .body_optional(),
    ]
}

async fn retry_incident(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let id = parse_incident_id(&id)?;
    let limit = door.options.limits.payload_bytes;
    let (parts, body) = request.into_parts();
    let body = read_optional_body(&door, &parts.headers, body, limit + ENVELOPE_BYTES).await?;
    let mut fields = JsonFields::of(body_text(&body)?, "").map_err(RequestRefusal::invalid)?;
    let reason = read_decision_reason(&mut fields);
    let input = event_fields::read_bounded(&mut fields, "input", limit)?;
    fields.finish_fields().map_err(RequestRefusal::invalid)?;

    let incident = require_open(find_incident(&door, &caller, id).await?)?;
    let action = find_incident_action(&door, &incident).await?;
    let how = match input {
        None => IncidentDecision::Retry,
        Some(input) => {
            let Some(action) = &action else {
                return Err(event_incident_refusal("input"));
            };
            let kind = input_kind(&door, &incident, action).await?;
            let input = edited_input::read_edited_input(&kind, &action.queue, &input)
                .map_err(RequestRefusal::invalid)?;
            IncidentDecision::RetryWith { input }
        }
    };
    let key = action.map(|action| {
        let more = if matches!(how, IncidentDecision::RetryWith { .. }) { 1 } else { 0 };
        action.key.with_revision(action.revision + more)
    });
    resolve_incident(&door, caller, incident, how, reason, key).await
}

async fn skip_incident(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let id = parse_incident_id(&id)?;
    let limit = door.options.limits.payload_bytes;
    let (parts, body) = request.into_parts();
    let body = read_optional_body(&door, &parts.headers, body, limit + ENVELOPE_BYTES).await?;
    let mut fields = JsonFields::of(body_text(&body)?, "").map_err(RequestRefusal::invalid)?;
    let reason = read_decision_reason(&mut fields);
    let result = fields.raw_json_or_null("result");
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    if let Some(result) = result.as_ref().filter(|result| result.len() > MAX_RESULT) {
        let detail = format!("result is {} bytes, at most {MAX_RESULT} are accepted", result.len());
        return Err(RequestRefusal::new(RefusalKind::TooLarge, detail));
    }

    let incident = require_open(find_incident(&door, &caller, id).await?)?;
    if incident.class == ErrorClass::Corrupt && incident.action.is_none() {
        let detail = "there is nothing to skip: the execution cannot be read; retry when it can be";
        return Err(RequestRefusal::new(RefusalKind::Conflict, detail));
    }
    let how = match (find_incident_action(&door, &incident).await?, result) {
        (Some(action), Some(result)) => {
            let emit = result_event(&door, &trace, &incident, &action, &result).await?.map(Box::new);
            IncidentDecision::Skip { result, emit }
        }
        (Some(_), None) => {
            let message = "is required: what the action would have returned; null where that does not matter";
            return Err(RequestRefusal::invalid(vec![Fault::new("result", message)]));
        }
        (None, None) => IncidentDecision::Skip { result: RawJson::null(), emit: None },
        (None, Some(_)) => return Err(event_incident_refusal("result")),
    };
    resolve_incident(&door, caller, incident, how, reason, None).await
}

async fn fail_incident(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    end_execution(&door, caller, &trace, &id, request, ManualEnding::Fail).await
}

async fn cancel_incident(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    end_execution(&door, caller, &trace, &id, request, ManualEnding::Cancel).await
}

async fn end_execution(
    door: &IngressState,
    caller: TenantCaller,
    trace: &TraceContext,
    id: &str,
    request: Request,
    ending: ManualEnding,
) -> Result<Response, RequestRefusal> {
    let id = parse_incident_id(id)?;
    let (parts, body) = request.into_parts();
    let body = read_optional_body(door, &parts.headers, body, ENVELOPE_BYTES).await?;
    let mut fields = JsonFields::of(body_text(&body)?, "").map_err(RequestRefusal::invalid)?;
    let reason = read_decision_reason(&mut fields);
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    let incident = require_open(find_incident(door, &caller, id).await?)?;
    let how = ending.resolving(door, &caller, trace, incident.execution.clone(), reason.as_deref());
    resolve_incident(door, caller, incident, how, reason, None).await
}

/// The ways to end an execution by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ManualEnding {
    Fail,
    Cancel,
}

#[derive(Serialize)]
struct EndEventPayload<'a> {
    reason: Option<&'a str>,
}

impl ManualEnding {
    pub(super) fn resolving(
        self,
        door: &IngressState,
        caller: &TenantCaller,
        trace: &TraceContext,
        execution: ExecutionKey,
        reason: Option<&str>,
    ) -> IncidentDecision {
        let (resolution, name) = match self {
            Self::Fail => (IncidentResolution::Fail, Name::fail_event()),
            Self::Cancel => (IncidentResolution::Cancel, Name::cancel_event()),
        };
        let payload = RawJson::from_value(&EndEventPayload { reason });
        let draft = EventDraft { execution, name, payload, idempotency_key: None };
        IncidentDecision::End {
            resolution,
            event: Box::new(event_draft::new_event(&door.submit, caller, trace, draft)),
        }
    }
}

async fn resolve_incident(
    door: &IngressState,
    caller: TenantCaller,
    incident: IncidentView,
    how: IncidentDecision,
    reason: Option<String>,
    key: Option<String>,
) -> Result<Response, RequestRefusal> {
    let (id, resolution) = (incident.id, how.resolution());
    let by = DecisionRecord { actor: caller.actor.clone(), reason };
    let now = door.clock.now();
    let verdicts = door.stores.incidents.resolve_incidents(&caller.tenant, &[(id, how)], &by, now).await?;
    match verdicts.into_iter().next() {
        Some(ResolveVerdict::Done { execution }) => {
            door.ring.ring_later(resolution_bells(&execution));
            door.news.work.notify_one();
            let resolved = IncidentResolved {
                incident_id: id.to_string(),
                execution_id: execution.execution.to_string(),
                resolution: resolution.into(),
                key,
            };
            Ok((StatusCode::ACCEPTED, Json(resolved)).into_response())
        }
        Some(ResolveVerdict::Already { resolution }) => {
            // Actor and time are added if they can be read; the resolution is known in any case.
            require_open(find_incident(door, &caller, id).await?)?;
            Err(RequestRefusal::new(
                RefusalKind::Conflict,
                format!("the incident was resolved before: {resolution}"),
            ))
        }
        Some(ResolveVerdict::NotFound) => Err(RequestRefusal::not_found("incident", id)),
        None => Err(RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict")),
    }
}

/// An event may be in the mailbox again and an action may be ready: any free worker takes them.
pub(super) fn resolution_bells(execution: &ExecutionKey) -> [Doorbell; 2] {
    [Doorbell::Mailbox(execution.clone()), Doorbell::Actions(execution.clone())]
}

/// The incident while it is open, or the problem that names the earlier resolution.
fn require_open(incident: IncidentView) -> Result<IncidentView, RequestRefusal> {
    let Some(resolved) = &incident.resolved else { return Ok(incident) };
    let by = resolved.actor.as_ref().map(|actor| format!(" by {actor:?}")).unwrap_or_default();
    let why = resolved.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let detail =
        format!("the incident was resolved before: {}{by} at {}{why}", resolved.resolution, resolved.at);
    Err(RequestRefusal::new(RefusalKind::Conflict, detail))
}

fn event_incident_refusal(field: &str) -> RequestRefusal {
    let message = "does not apply: the incident is of an event that could not be decided, not of an action";
    RequestRefusal::invalid(vec![Fault::new(field, message)])
}

/// The event that delivers a result given by a person to the execution, if its definition handles it.
async fn result_event(
    door: &IngressState,
    trace: &TraceContext,
    incident: &IncidentView,
    action: &ActionRecord,
    result: &RawJson,
) -> Result<Option<EventSubmission>, RequestRefusal> {
    let machine = find_machine(door, incident).await?;
    let ActionKey { execution, action: name, .. } = &action.key;
    let spec = machine.action_spec(name);
    let key = action.key.with_revision(action.revision);
    let attempts = u32::try_from(action.attempts).unwrap_or(0);
    let emitted = spec.and_then(|spec| action::success_event(spec, &key, attempts, result));
    Ok(emitted.map(|(event, payload)| EventSubmission {
        event_id: entropy::event_id(door.clock.now(), &*door.entropy),
        execution: execution.clone(),
        name: event,
        payload,
        origin: EventOrigin::Posted,
        idempotency: None,
        actor: Some(format!("action:{name}")),
        traceparent: Some(trace.traceparent.to_string()),
    }))
}

/// The kind that an edited input must have: that of the stored input, or of the definition where none could
/// be rendered.
async fn input_kind(
    door: &IngressState,
    incident: &IncidentView,
    action: &ActionRecord,
) -> Result<String, RequestRefusal> {
    let stored = action.input.as_ref().and_then(|input| input.decode::<ActionInput>().ok());
    if let Some(stored) = stored {
        return Ok(stored.kind().to_owned());
    }
    let machine = find_machine(door, incident).await?;
    let spec = machine.action_spec(&action.key.action);
    spec.map(|spec| spec.kind.kind_name().to_owned()).ok_or_else(|| {
        RequestRefusal::new(RefusalKind::Conflict, "the engine's own action has no input to be edited")
    })
}

async fn find_machine(door: &IngressState, incident: &IncidentView) -> Result<Arc<Machine>, RequestRefusal> {
    let (tenant, definition) = (&incident.execution.tenant, &incident.definition);
    let found = door.machines.find_machine(tenant, &definition.name, Some(definition.version)).await?;
    let (_, machine) = found.ok_or_else(|| {
        tracing::error!(%definition, "definition of an execution is missing in the store");
        RequestRefusal::new(RefusalKind::Internal, "the definition cannot be read")
    })?;
    Ok(machine)
}

/// The reason of the resolution.
pub(super) fn read_decision_reason(fields: &mut JsonFields<'_>) -> Option<String> {
    let reason = fields.take_text("reason")?;
    if reason.chars().count() > REASON_CHARS {
        fields.add_fault("reason", format!("is longer than {REASON_CHARS} characters"));
        return None;
    }
    Some(reason.into_owned())
}

//! Validation of events before they are accepted, singly or in a batch.
//!
//! Checks only what no later state can change: the execution exists, its definition mentions the event, the
//! name is not reserved, and the sizes are within limits. Whether the event fits the state is decided when
//! the worker takes it from the mailbox.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_model::entropy;
use millstream_model::id::{DefinitionRef, EventId, ExecutionId, ExecutionKey, Name, TenantId};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::suggest::did_you_mean;
use millstream_store::event_log::{Appended, EventSubmission, IdempotencyKey};
use millstream_workflow::log::EventOrigin;
use millstream_workflow::machine::Machine;
use sha2::{Digest, Sha256};

use super::problem::{ApiProblem, ProblemKind};
use crate::accept::AppendVerdict;
use crate::auth::TenantCaller;
use crate::definition_cache::TargetEviction;
use crate::fields::JsonFields;
use crate::graphs::create::is_graph;
use crate::state::IngressState;
use crate::trace::TraceContext;

/// A well-formed event of a client, not yet checked against the store.
#[derive(Debug)]
pub(crate) struct EventDraft {
    pub(crate) execution: ExecutionKey,
    pub(crate) name: Name,
    pub(crate) payload: RawJson,
    pub(crate) idempotency_key: Option<String>,
}

impl EventDraft {
    /// The idempotency key with the hash of its request: execution, name and payload.
    pub(super) fn idempotency(&self) -> Option<IdempotencyKey> {
        let key = self.idempotency_key.clone()?;
        let request_hash = hash_parts(&[
            self.execution.execution.as_str().as_bytes(),
            self.name.as_str().as_bytes(),
            self.payload.as_str().as_bytes(),
        ]);
        Some(IdempotencyKey { key, request_hash })
    }
}

/// The name and payload of a draft.
#[derive(Debug)]
pub(crate) struct EventContent {
    pub(crate) name: Name,
    pub(crate) payload: RawJson,
}

/// Takes `name` and `payload`; a payload that is too large is a problem of its own kind.
pub(crate) fn read_event_content(
    fields: &mut JsonFields<'_>,
    payload_limit: usize,
) -> Result<Option<EventContent>, ApiProblem> {
    let name = fields.required_text("name");
    let name = fields.parse_text("name", name, |text| Name::parse(text));
    let payload = read_bounded(fields, "payload", payload_limit)?.unwrap_or_else(RawJson::null);
    Ok(name.map(|name| EventContent { name, payload }))
}

/// A raw field of at most `limit` bytes.
pub(super) fn read_bounded(
    fields: &mut JsonFields<'_>,
    field: &'static str,
    limit: usize,
) -> Result<Option<RawJson>, ApiProblem> {
    let raw = fields.raw_json(field);
    match &raw {
        Some(raw) if raw.len() > limit => {
            let detail =
                format!("{} is {} bytes, at most {limit} are accepted", fields.path_of(field), raw.len());
            Err(ApiProblem::new(ProblemKind::TooLarge, detail))
        }
        Some(_) | None => Ok(raw),
    }
}

/// Parses the execution id of a path; text that cannot be an id is answered with 404.
pub(super) fn parse_execution_key(caller: &TenantCaller, id: &str) -> Result<ExecutionKey, ApiProblem> {
    let execution = ExecutionId::parse(id).map_err(|_| ApiProblem::not_found("execution", id))?;
    Ok(ExecutionKey { tenant: caller.tenant.clone(), execution })
}

/// Validates an idempotency key: it can be stored and shown.
pub(crate) fn parse_idempotency_key(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.len() > 255 || text.chars().any(char::is_control) {
        return Err("must be 1 to 255 bytes of text without control characters");
    }
    Ok(text.to_owned())
}

/// The key of the `Idempotency-Key` header.
pub(crate) fn idempotency_header(headers: &axum::http::HeaderMap) -> Result<Option<String>, ApiProblem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value.to_str().map_err(|_| "is not plain text").map(str::trim);
    text.and_then(parse_idempotency_key)
        .map(Some)
        .map_err(|message| ApiProblem::bad_request(format!("Idempotency-Key {message}")))
}

/// The compiled definition of an accepted draft's execution.
#[derive(Debug, Clone)]
pub(super) struct EventTarget {
    pub(super) machine: Arc<Machine>,
}

/// Checks drafts against the store: one verdict per draft, in order.
///
/// A cached entry alone never rejects: the id may belong to a new execution of another definition, so a
/// rejection that is based on the cache is checked again against the store.
pub(super) async fn check_drafts(
    door: &IngressState,
    drafts: &[&EventDraft],
) -> Result<Vec<Result<EventTarget, ApiProblem>>, ApiProblem> {
    let mut verdicts = check_once(door, drafts).await?;
    let doubtful: Vec<usize> = (0..drafts.len())
        .filter(|at| {
            matches!(&verdicts[*at], Err(problem) if problem.kind == ProblemKind::UnknownEvent)
                && door.machines.forget_target(&drafts[*at].execution) == TargetEviction::Forgotten
        })
        .collect();
    if !doubtful.is_empty() {
        let again: Vec<&EventDraft> = doubtful.iter().map(|at| drafts[*at]).collect();
        for (at, verdict) in doubtful.into_iter().zip(check_once(door, &again).await?) {
            verdicts[at] = verdict;
        }
    }
    Ok(verdicts)
}

async fn check_once(
    door: &IngressState,
    drafts: &[&EventDraft],
) -> Result<Vec<Result<EventTarget, ApiProblem>>, ApiProblem> {
    let keys: Vec<ExecutionKey> = drafts.iter().map(|draft| draft.execution.clone()).collect();
    let targets = door.machines.definitions_of(&keys).await?;
    let mut machines: BTreeMap<DefinitionRef, Arc<Machine>> = BTreeMap::new();
    let mut verdicts = Vec::with_capacity(drafts.len());
    for (draft, target) in drafts.iter().zip(targets) {
        let Some(definition) = target else {
            verdicts.push(Err(ApiProblem::not_found("execution", &draft.execution.execution)));
            continue;
        };
        if is_graph(&definition) {
            verdicts.push(Err(edits_instead(&draft.execution.execution)));
            continue;
        }
        let machine = match machines.get(&definition) {
            Some(machine) => machine.clone(),
            None => {
                let tenant = &draft.execution.tenant;
                let found =
                    door.machines.find_machine(tenant, &definition.name, Some(definition.version)).await?;
                let Some((_, machine)) = found else {
                    tracing::error!(%definition, "definition of an execution is missing in the store");
                    verdicts
                        .push(Err(ApiProblem::new(ProblemKind::Internal, "the definition cannot be read")));
                    continue;
                };
                machines.insert(definition, machine.clone());
                machine
            }
        };
        verdicts.push(check_mentioned(&machine, &draft.name).map(|()| EventTarget { machine }));
    }
    Ok(verdicts)
}

fn edits_instead(graph: &ExecutionId) -> ApiProblem {
    unknown_event(format!("{graph:?} is a graph, which takes edits: see POST /v1/graphs/{graph}/edits"))
}

pub(super) fn key_reused() -> ApiProblem {
    let detail = "this idempotency key was used before with another execution, name or payload";
    ApiProblem::new(ProblemKind::KeyReused, detail)
}

/// Answers requests that the checks reject. A request whose idempotency key was accepted before gets its
/// original answer, whatever the checks say today; the others get their problem. In order.
///
/// Only rejected requests are looked up, so that keys cost nothing on the hot path: for a request that passes
/// the checks, the append itself judges the key first.
pub(crate) async fn recall_accepted(
    door: &IngressState,
    refused: Vec<(&TenantId, Option<IdempotencyKey>, ApiProblem)>,
) -> Result<Vec<Result<(EventId, EventStatus), ApiProblem>>, ApiProblem> {
    let keyed = refused.iter().filter_map(|(tenant, key, _)| Some(((*tenant).clone(), key.clone()?)));
    let keyed: Vec<_> = keyed.collect();
    let seen = if keyed.is_empty() { Vec::new() } else { door.stores.events.find_accepted(&keyed).await? };
    let mut seen = seen.into_iter();
    Ok(refused
        .into_iter()
        .map(|(_, key, problem)| match key.and_then(|_| seen.next()).flatten() {
            Some(Appended::Repeat { event_id, status }) => Ok((event_id, status)),
            Some(Appended::Mismatch) => Err(key_reused()),
            Some(
                Appended::Accepted { .. }
                | Appended::Delivered { .. }
                | Appended::Buffered
                | Appended::Ambiguous { .. }
                | Appended::NoExecution,
            )
            | None => Err(problem),
        })
        .collect())
}

/// Checks that clients may send this event to executions of this definition.
pub(super) fn check_mentioned(machine: &Machine, event: &Name) -> Result<(), ApiProblem> {
    check_unreserved(event)?;
    if machine.knows_event(event) {
        return Ok(());
    }
    let definition = machine.definition();
    let events = definition.states().values().flat_map(|state| state.on.keys()).map(Name::as_str);
    let hint = did_you_mean(event.as_str(), events);
    Err(unknown_event(format!("no state of {:?} mentions {event:?}{hint}", definition.name())))
}

/// Checks that the name is not reserved for the engine.
pub(super) fn check_unreserved(event: &Name) -> Result<(), ApiProblem> {
    if event.is_reserved() {
        let detail = format!("names that start with {:?} are reserved for the engine", Name::RESERVED_PREFIX);
        return Err(unknown_event(detail));
    }
    Ok(())
}

fn unknown_event(detail: String) -> ApiProblem {
    let fault = Fault::new("name", detail.clone());
    ApiProblem { faults: vec![fault], ..ApiProblem::new(ProblemKind::UnknownEvent, detail) }
}

/// The event to append.
pub(crate) fn new_event(
    door: &IngressState,
    caller: &TenantCaller,
    trace: &TraceContext,
    draft: EventDraft,
) -> EventSubmission {
    let idempotency = draft.idempotency();
    let EventDraft { execution, name, payload, idempotency_key: _ } = draft;
    EventSubmission {
        event_id: entropy::event_id(door.clock.now(), &*door.entropy),
        execution,
        name,
        payload,
        origin: EventOrigin::Posted,
        idempotency,
        actor: caller.actor.clone(),
        traceparent: Some(trace.traceparent.to_string()),
    }
}

/// SHA-256 over the parts, each preceded by its length, so that different lists have different inputs.
pub(crate) fn hash_parts(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Derives the execution id from an idempotency key.
pub(crate) fn execution_id_of_key(tenant: &TenantId, key: &str) -> Result<ExecutionId, ApiProblem> {
    let hash = hash_parts(&[b"execution", tenant.as_str().as_bytes(), key.as_bytes()]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    parse_execution_id(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

pub(crate) fn parse_execution_id(id: uuid::Uuid) -> Result<ExecutionId, ApiProblem> {
    ExecutionId::parse(id.to_string())
        .map_err(|error| ApiProblem::new(ProblemKind::Internal, format!("a new id {error}")))
}

/// Translates the store's verdict on an event for the caller.
pub(crate) fn accepted_event(
    door: &IngressState,
    event: &EventSubmission,
    verdict: AppendVerdict,
) -> Result<(EventId, EventStatus), ApiProblem> {
    match verdict {
        AppendVerdict::Stored(Appended::Accepted { .. }) => Ok((event.event_id, EventStatus::Pending)),
        AppendVerdict::Stored(Appended::Repeat { event_id, status }) => Ok((event_id, status)),
        AppendVerdict::Stored(Appended::Mismatch) => Err(key_reused()),
        AppendVerdict::Stored(Appended::NoExecution) => {
            door.machines.forget_target(&event.execution);
            Err(ApiProblem::not_found("execution", &event.execution.execution))
        }
        // These answer signals only.
        AppendVerdict::Stored(
            Appended::Delivered { .. } | Appended::Buffered | Appended::Ambiguous { .. },
        )
        | AppendVerdict::Refused => {
            Err(ApiProblem::new(ProblemKind::Internal, "the store cannot take this event"))
        }
    }
}

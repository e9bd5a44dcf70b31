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

use super::SubmitDeps;
use crate::accept::AppendVerdict;
use crate::auth::TenantCaller;
use crate::definition_cache::TargetEviction;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::request_hash::hash_parts;
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
    pub(crate) fn idempotency(&self) -> Option<IdempotencyKey> {
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

/// Parses the execution id of a path; text that cannot be an id is answered with 404.
pub(crate) fn parse_execution_key(caller: &TenantCaller, id: &str) -> Result<ExecutionKey, RequestRefusal> {
    let execution = ExecutionId::parse(id).map_err(|_| RequestRefusal::not_found("execution", id))?;
    Ok(ExecutionKey { tenant: caller.tenant.clone(), execution })
}

/// The compiled definition of an accepted draft's execution.
#[derive(Debug, Clone)]
pub(crate) struct EventTarget {
    pub(crate) machine: Arc<Machine>,
}

/// Whether this is the built-in definition of all graphs.
fn is_graph(definition: &DefinitionRef) -> bool {
    definition.name == Name::graph()
}

/// Checks drafts against the store: one verdict per draft, in order.
///
/// A cached entry alone never rejects: the id may belong to a new execution of another definition, so a
/// rejection that is based on the cache is checked again against the store.
pub(crate) async fn check_drafts(
    deps: &SubmitDeps,
    drafts: &[&EventDraft],
) -> Result<Vec<Result<EventTarget, RequestRefusal>>, RequestRefusal> {
    let mut verdicts = check_once(deps, drafts).await?;
    let doubtful: Vec<usize> = (0..drafts.len())
        .filter(|at| {
            matches!(&verdicts[*at], Err(refusal) if refusal.kind == RefusalKind::UnknownEvent)
                && deps.machines.forget_target(&drafts[*at].execution) == TargetEviction::Forgotten
        })
        .collect();
    if !doubtful.is_empty() {
        let again: Vec<&EventDraft> = doubtful.iter().map(|at| drafts[*at]).collect();
        for (at, verdict) in doubtful.into_iter().zip(check_once(deps, &again).await?) {
            verdicts[at] = verdict;
        }
    }
    Ok(verdicts)
}

async fn check_once(
    deps: &SubmitDeps,
    drafts: &[&EventDraft],
) -> Result<Vec<Result<EventTarget, RequestRefusal>>, RequestRefusal> {
    let keys: Vec<ExecutionKey> = drafts.iter().map(|draft| draft.execution.clone()).collect();
    let targets = deps.machines.definitions_of(&keys).await?;
    let mut machines: BTreeMap<DefinitionRef, Arc<Machine>> = BTreeMap::new();
    let mut verdicts = Vec::with_capacity(drafts.len());
    for (draft, target) in drafts.iter().zip(targets) {
        let Some(definition) = target else {
            verdicts.push(Err(RequestRefusal::not_found("execution", &draft.execution.execution)));
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
                    deps.machines.find_machine(tenant, &definition.name, Some(definition.version)).await?;
                let Some((_, machine)) = found else {
                    tracing::error!(%definition, "definition of an execution is missing in the store");
                    verdicts.push(Err(RequestRefusal::new(
                        RefusalKind::Internal,
                        "the definition cannot be read",
                    )));
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

fn edits_instead(graph: &ExecutionId) -> RequestRefusal {
    unknown_event(format!("{graph:?} is a graph, which takes edits: see POST /v1/graphs/{graph}/edits"))
}

pub(crate) fn key_reused() -> RequestRefusal {
    let detail = "this idempotency key was used before with another execution, name or payload";
    RequestRefusal::new(RefusalKind::KeyReused, detail)
}

/// Answers requests that the checks reject. A request whose idempotency key was accepted before gets its
/// original answer, whatever the checks say today; the others get their refusal. In order.
///
/// Only rejected requests are looked up, so that keys cost nothing on the hot path: for a request that passes
/// the checks, the append itself judges the key first.
pub(crate) async fn recall_accepted(
    deps: &SubmitDeps,
    refused: Vec<(&TenantId, Option<IdempotencyKey>, RequestRefusal)>,
) -> Result<Vec<Result<(EventId, EventStatus), RequestRefusal>>, RequestRefusal> {
    let keyed = refused.iter().filter_map(|(tenant, key, _)| Some(((*tenant).clone(), key.clone()?)));
    let keyed: Vec<_> = keyed.collect();
    let seen = if keyed.is_empty() { Vec::new() } else { deps.events.find_accepted(&keyed).await? };
    let mut seen = seen.into_iter();
    Ok(refused
        .into_iter()
        .map(|(_, key, refusal)| match key.and_then(|_| seen.next()).flatten() {
            Some(Appended::Repeat { event_id, status }) => Ok((event_id, status)),
            Some(Appended::Mismatch) => Err(key_reused()),
            Some(
                Appended::Accepted { .. }
                | Appended::Delivered { .. }
                | Appended::Buffered
                | Appended::Ambiguous { .. }
                | Appended::NoExecution,
            )
            | None => Err(refusal),
        })
        .collect())
}

/// Checks that clients may send this event to executions of this definition.
pub(crate) fn check_mentioned(machine: &Machine, event: &Name) -> Result<(), RequestRefusal> {
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
pub(crate) fn check_unreserved(event: &Name) -> Result<(), RequestRefusal> {
    if event.is_reserved() {
        let detail = format!("names that start with {:?} are reserved for the engine", Name::RESERVED_PREFIX);
        return Err(unknown_event(detail));
    }
    Ok(())
}

fn unknown_event(detail: String) -> RequestRefusal {
    let fault = Fault::new("name", detail.clone());
    RequestRefusal { faults: vec![fault], ..RequestRefusal::new(RefusalKind::UnknownEvent, detail) }
}

/// The event to append.
pub(crate) fn new_event(
    deps: &SubmitDeps,
    caller: &TenantCaller,
    trace: &TraceContext,
    draft: EventDraft,
) -> EventSubmission {
    let idempotency = draft.idempotency();
    let EventDraft { execution, name, payload, idempotency_key: _ } = draft;
    EventSubmission {
        event_id: entropy::event_id(deps.clock.now(), &*deps.entropy),
        execution,
        name,
        payload,
        origin: EventOrigin::Posted,
        idempotency,
        actor: caller.actor.clone(),
        traceparent: Some(trace.traceparent.to_string()),
    }
}

/// Derives the execution id from an idempotency key.
pub(crate) fn execution_id_of_key(tenant: &TenantId, key: &str) -> Result<ExecutionId, RequestRefusal> {
    let hash = hash_parts(&[b"execution", tenant.as_str().as_bytes(), key.as_bytes()]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    parse_execution_id(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

pub(crate) fn parse_execution_id(id: uuid::Uuid) -> Result<ExecutionId, RequestRefusal> {
    ExecutionId::parse(id.to_string())
        .map_err(|error| RequestRefusal::new(RefusalKind::Internal, format!("a new id {error}")))
}

/// Translates the store's verdict on an event for the caller.
pub(crate) fn accepted_event(
    deps: &SubmitDeps,
    event: &EventSubmission,
    verdict: AppendVerdict,
) -> Result<(EventId, EventStatus), RequestRefusal> {
    match verdict {
        AppendVerdict::Stored(Appended::Accepted { .. }) => Ok((event.event_id, EventStatus::Pending)),
        AppendVerdict::Stored(Appended::Repeat { event_id, status }) => Ok((event_id, status)),
        AppendVerdict::Stored(Appended::Mismatch) => Err(key_reused()),
        AppendVerdict::Stored(Appended::NoExecution) => {
            deps.machines.forget_target(&event.execution);
            Err(RequestRefusal::not_found("execution", &event.execution.execution))
        }
        // These answer signals only.
        AppendVerdict::Stored(
            Appended::Delivered { .. } | Appended::Buffered | Appended::Ambiguous { .. },
        )
        | AppendVerdict::Refused => {
            Err(RequestRefusal::new(RefusalKind::Internal, "the store cannot take this event"))
        }
    }
}

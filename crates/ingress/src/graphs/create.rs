//! Creates a graph: checked and decided here, durable in one append together with the event that starts it.
//!
//! Idempotency compares the graph itself in canonical form: a repeat over HTTP or gRPC, with or without
//! explicit default values, is the same graph.

use millstream_model::entropy;
use millstream_model::id::{DefinitionRef, ExecutionId, ExecutionKey, Name};
use millstream_model::problem::{ValidationProblem as Fault, ValidationProblems};
use millstream_model::raw::RawJson;
use millstream_rpc::graph_start::{self, GraphStart};
use millstream_store::event_log::{AppendRequest, Appended, ExecutionStart, IdempotencyKey};
use millstream_workflow::graph::{self, GraphSpec, InvalidGraph};
use millstream_workflow::quota_caps;

use super::find::{FoundGraph, find_graph};
use super::run_off_runtime;
use crate::accept::AppendVerdict;
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::http::event_draft;
use crate::http::problem::{ApiProblem, ProblemKind};
use crate::quotas::StartCharge;
use crate::state::IngressState;
use crate::trace::TraceContext;

/// A graph to create.
#[derive(Debug)]
pub(crate) struct GraphToCreate {
    pub(crate) id: Option<ExecutionId>,
    pub(crate) spec: GraphSpec,
    pub(crate) idempotency_key: Option<String>,
    /// Size of the request: the measure of its work.
    pub(crate) bytes: usize,
}

/// Whether the request created the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphCreation {
    Created,
    /// It existed already, with the same content.
    Existed,
}

pub(crate) async fn create_graph(
    door: &IngressState,
    caller: &TenantCaller,
    trace: &TraceContext,
    slot: &RequestSlot,
    wish: GraphToCreate,
) -> Result<(GraphCreation, FoundGraph), ApiProblem> {
    let GraphToCreate { id, spec, idempotency_key, bytes } = wish;
    if spec.name.is_empty() {
        return Err(ApiProblem::invalid(vec![Fault::new("name", "must have at least one character")]));
    }
    let quota = door.quotas.quota_of(&caller.tenant);
    let (input_hash, spec, beyond) = run_off_runtime(&door.machines.graph_work, bytes, move || {
        let (canonical, beyond) = (RawJson::from_value(&spec), quota_caps::graph_problems(&spec, &quota));
        (event_draft::hash_parts(&[b"graph", canonical.as_str().as_bytes()]), spec, beyond)
    })
    .await?;
    let idempotency = idempotency_key.map(|key| {
        let id = id.as_ref().map_or("", ExecutionId::as_str);
        let request_hash = event_draft::hash_parts(&[b"graph", id.as_bytes(), &input_hash]);
        IdempotencyKey { key, request_hash }
    });
    let now = door.clock.now();
    let execution = match (id.clone(), &idempotency) {
        (Some(id), _) => id,
        (None, Some(idempotency)) => event_draft::execution_id_of_key(&caller.tenant, &idempotency.key)?,
        (None, None) => event_draft::parse_execution_id(entropy::uuid_v7(now, &*door.entropy))?,
    };
    let key = ExecutionKey { tenant: caller.tenant.clone(), execution };
    let new = GraphStart {
        key: key.clone(),
        spec,
        event_ids: [(); 2].map(|()| entropy::event_id(now, &*door.entropy)),
        input_hash,
        idempotency: idempotency.clone(),
        parent: None,
        actor: caller.actor.clone(),
        traceparent: Some(trace.traceparent.to_string()),
    };
    let new = admit_and_check(door, caller, slot, new, bytes).await;
    let new = match new {
        Ok(new) => door.admit_graph(&new.key, beyond).await.map(|()| new),
        Err(problem) => Err(problem),
    };
    let new = match new {
        Ok(new) => new,
        // Refused now; but a graph created earlier with this idempotency key gets its original answer.
        Err(problem) => {
            let refused = vec![(&caller.tenant, idempotency, problem)];
            let recalled = event_draft::recall_accepted(door, refused).await?.pop();
            recalled.ok_or_else(|| ApiProblem::new(ProblemKind::Internal, "the store gave no verdict"))??;
            return Ok((GraphCreation::Existed, find_graph(door, &key).await?));
        }
    };
    let made = append_start(door, new, id.is_some()).await?;
    Ok((made, find_graph(door, &key).await?))
}

/// Admission comes first: the check of a tenant over its quota costs nothing.
async fn admit_and_check(
    door: &IngressState,
    caller: &TenantCaller,
    slot: &RequestSlot,
    new: GraphStart,
    bytes: usize,
) -> Result<ExecutionStart, ApiProblem> {
    slot.admit_new()?;
    let charge = StartCharge { key: &new.key, events: 2, bytes: new.spec.name.len() + new.spec.input.len() };
    door.admit_start(&caller.tenant, charge).await?;
    let bytes = bytes.max(graph::graph_check_bytes(&new.spec));
    let now = door.clock.now();
    let checked =
        run_off_runtime(&door.machines.compilations, bytes, move || graph_start::start_graph(new, now))
            .await?;
    checked.map_err(invalid_graph)
}

async fn append_start(
    door: &IngressState,
    new: ExecutionStart,
    named: bool,
) -> Result<GraphCreation, ApiProblem> {
    let (key, idempotency) = (new.key.clone(), new.start.idempotency.clone());
    let definition: DefinitionRef = new.definition.clone();
    let verdict = door.accept.submit_batch(vec![AppendRequest::Start(Box::new(new))]).await?.pop();
    match verdict {
        Some(AppendVerdict::Stored(Appended::Accepted { .. })) => {
            door.machines.remember_target(key, definition);
            Ok(GraphCreation::Created)
        }
        Some(AppendVerdict::Stored(Appended::Repeat { .. })) => Ok(GraphCreation::Existed),
        Some(AppendVerdict::Stored(Appended::Mismatch)) => {
            let reused = match idempotency {
                None => false,
                Some(_) if !named => true,
                Some(idempotency) => {
                    let asked = [(key.tenant.clone(), idempotency)];
                    door.stores.events.find_accepted(&asked).await? == [Some(Appended::Mismatch)]
                }
            };
            Err(if reused {
                ApiProblem::new(
                    ProblemKind::KeyReused,
                    "this idempotency key was used before with another request",
                )
            } else {
                let id = key.execution.as_str();
                ApiProblem::new(ProblemKind::Exists, format!("{id:?} already exists with different content"))
            })
        }
        Some(
            AppendVerdict::Stored(
                Appended::NoExecution
                | Appended::Delivered { .. }
                | Appended::Buffered
                | Appended::Ambiguous { .. },
            )
            | AppendVerdict::Refused,
        )
        | None => Err(ApiProblem::new(ProblemKind::Internal, "the store cannot take this graph")),
    }
}

fn invalid_graph(invalid: InvalidGraph) -> ApiProblem {
    match invalid {
        InvalidGraph::TooLarge(fault) => ApiProblem {
            faults: vec![fault.clone()],
            ..ApiProblem::new(ProblemKind::TooLarge, fault.to_string())
        },
        InvalidGraph::Problems(ValidationProblems(faults)) => ApiProblem::invalid(faults),
    }
}

/// Whether this is the built-in definition of all graphs.
pub(crate) fn is_graph(definition: &DefinitionRef) -> bool {
    definition.name == Name::graph()
}

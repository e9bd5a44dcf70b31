//! Creates a graph: checked and decided here, durable in one append together with the event that starts it.
//!
//! Idempotency compares the graph itself in canonical form: a repeat over HTTP or gRPC, with or without
//! explicit default values, is the same graph.

use millstream_model::entropy;
use millstream_model::id::{DefinitionRef, ExecutionId, ExecutionKey};
use millstream_model::problem::{ValidationProblem as Fault, ValidationProblems};
use millstream_model::raw::RawJson;
use millstream_rpc::graph_start::{self, GraphStart};
use millstream_store::event_log::{AppendRequest, Appended, ExecutionStart, IdempotencyKey};
use millstream_workflow::graph::{self, GraphSpec, InvalidGraph};
use millstream_workflow::quota_caps;

use super::GraphDeps;
use super::find::{FoundGraph, find_graph};
use super::run_off_runtime;
use crate::accept::AppendVerdict;
use crate::admission::StartCharge;
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::request_hash::hash_parts;
use crate::submit::event_draft;
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
    deps: &GraphDeps,
    caller: &TenantCaller,
    trace: &TraceContext,
    slot: &RequestSlot,
    wish: GraphToCreate,
) -> Result<(GraphCreation, FoundGraph), RequestRefusal> {
    let GraphToCreate { id, spec, idempotency_key, bytes } = wish;
    if spec.name.is_empty() {
        return Err(RequestRefusal::invalid(vec![Fault::new("name", "must have at least one character")]));
    }
    let quota = deps.admission.quotas.quota_of(&caller.tenant);
    let (input_hash, spec, beyond) = run_off_runtime(&deps.machines.graph_work, bytes, move || {
        let (canonical, beyond) = (RawJson::from_value(&spec), quota_caps::graph_problems(&spec, &quota));
        (hash_parts(&[b"graph", canonical.as_str().as_bytes()]), spec, beyond)
    })
    .await?;
    let idempotency = idempotency_key.map(|key| {
        let id = id.as_ref().map_or("", ExecutionId::as_str);
        let request_hash = hash_parts(&[b"graph", id.as_bytes(), &input_hash]);
        IdempotencyKey { key, request_hash }
    });
    let now = deps.clock.now();
    let execution = match (id.clone(), &idempotency) {
        (Some(id), _) => id,
        (None, Some(idempotency)) => event_draft::execution_id_of_key(&caller.tenant, &idempotency.key)?,
        (None, None) => event_draft::parse_execution_id(entropy::uuid_v7(now, &*deps.entropy))?,
    };
    let key = ExecutionKey { tenant: caller.tenant.clone(), execution };
    let new = GraphStart {
        key: key.clone(),
        spec,
        event_ids: [(); 2].map(|()| entropy::event_id(now, &*deps.entropy)),
        input_hash,
        idempotency: idempotency.clone(),
        parent: None,
        actor: caller.actor.clone(),
        traceparent: Some(trace.traceparent.to_string()),
    };
    let new = admit_and_check(deps, caller, slot, new, bytes).await;
    let new = match new {
        Ok(new) => deps.admission.admit_graph(&new.key, beyond).await.map(|()| new),
        Err(refusal) => Err(refusal),
    };
    let new = match new {
        Ok(new) => new,
        // Refused now; but a graph created earlier with this idempotency key gets its original answer.
        Err(refusal) => {
            let refused = vec![(&caller.tenant, idempotency, refusal)];
            let recalled = event_draft::recall_accepted(&deps.submit, refused).await?.pop();
            recalled
                .ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict"))??;
            return Ok((GraphCreation::Existed, find_graph(deps, &key).await?));
        }
    };
    let made = append_start(deps, new, id.is_some()).await?;
    Ok((made, find_graph(deps, &key).await?))
}

/// Admission comes first: the check of a tenant over its quota costs nothing.
async fn admit_and_check(
    deps: &GraphDeps,
    caller: &TenantCaller,
    slot: &RequestSlot,
    new: GraphStart,
    bytes: usize,
) -> Result<ExecutionStart, RequestRefusal> {
    slot.admit_new()?;
    let charge = StartCharge { key: &new.key, events: 2, bytes: new.spec.name.len() + new.spec.input.len() };
    deps.admission.admit_start(&caller.tenant, charge).await?;
    let bytes = bytes.max(graph::graph_check_bytes(&new.spec));
    let now = deps.clock.now();
    let checked =
        run_off_runtime(&deps.machines.compilations, bytes, move || graph_start::start_graph(new, now))
            .await?;
    checked.map_err(invalid_graph)
}

async fn append_start(
    deps: &GraphDeps,
    new: ExecutionStart,
    named: bool,
) -> Result<GraphCreation, RequestRefusal> {
    let (key, idempotency) = (new.key.clone(), new.start.idempotency.clone());
    let definition: DefinitionRef = new.definition.clone();
    let verdict = deps.accept.submit_batch(vec![AppendRequest::Start(Box::new(new))]).await?.pop();
    match verdict {
        Some(AppendVerdict::Stored(Appended::Accepted { .. })) => {
            deps.machines.remember_target(key, definition);
            Ok(GraphCreation::Created)
        }
        Some(AppendVerdict::Stored(Appended::Repeat { .. })) => Ok(GraphCreation::Existed),
        Some(AppendVerdict::Stored(Appended::Mismatch)) => {
            let reused = match idempotency {
                None => false,
                Some(_) if !named => true,
                Some(idempotency) => {
                    let asked = [(key.tenant.clone(), idempotency)];
                    deps.stores.events.find_accepted(&asked).await? == [Some(Appended::Mismatch)]
                }
            };
            Err(if reused {
                RequestRefusal::new(
                    RefusalKind::KeyReused,
                    "this idempotency key was used before with another request",
                )
            } else {
                let id = key.execution.as_str();
                RequestRefusal::new(
                    RefusalKind::Exists,
                    format!("{id:?} already exists with different content"),
                )
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
        | None => Err(RequestRefusal::new(RefusalKind::Internal, "the store cannot take this graph")),
    }
}

fn invalid_graph(invalid: InvalidGraph) -> RequestRefusal {
    match invalid {
        InvalidGraph::TooLarge(fault) => RequestRefusal {
            faults: vec![fault.clone()],
            ..RequestRefusal::new(RefusalKind::TooLarge, fault.to_string())
        },
        InvalidGraph::Problems(ValidationProblems(faults)) => RequestRefusal::invalid(faults),
    }
}

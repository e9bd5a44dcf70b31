//! Creates a graph: checked and decided here, durable in one append together with the event that starts it.
//!
//! Idempotency compares the graph itself in canonical form: a repeat over HTTP or gRPC, with or without
//! explicit default values, is the same graph.

use millstream_core::entropy;
use millstream_core::graph::{self, GraphSpec, Invalid};
use millstream_core::id::{DefinitionRef, ExecutionId, ExecutionKey, Name};
use millstream_core::problem::{Problem as Fault, Problems};
use millstream_core::quota::caps;
use millstream_core::raw::RawJson;
use millstream_rpc::graph_start::{self, NewGraph};
use millstream_store::event_log::{Append, Appended, Idempotency, NewExecution};

use super::find::{Found, find};
use super::heavy;
use crate::accept::Verdict;
use crate::auth::Caller;
use crate::door::Door;
use crate::gate::Slot;
use crate::http::posting;
use crate::http::problem::{Kind, Problem};
use crate::quotas::StartCharge;
use crate::trace::Trace;

/// A graph to create.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) id: Option<ExecutionId>,
    pub(crate) spec: GraphSpec,
    pub(crate) idempotency_key: Option<String>,
    /// Size of the request: the measure of its work.
    pub(crate) bytes: usize,
}

/// Whether the request created the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    Created,
    /// It existed already, with the same content.
    Existed,
}

pub(crate) async fn create(
    door: &Door,
    caller: &Caller,
    trace: &Trace,
    slot: &Slot,
    wish: Wish,
) -> Result<(Made, Found), Problem> {
    let Wish { id, spec, idempotency_key, bytes } = wish;
    if spec.name.is_empty() {
        return Err(Problem::invalid(vec![Fault::new("name", "must have at least one character")]));
    }
    let quota = door.quotas.quota(&caller.tenant);
    let (input_hash, spec, beyond) = heavy(&door.machines.graph_work, bytes, move || {
        let (canonical, beyond) = (RawJson::of(&spec), caps::graph_problems(&spec, &quota));
        (posting::hash(&[b"graph", canonical.as_str().as_bytes()]), spec, beyond)
    })
    .await?;
    let idempotency = idempotency_key.map(|key| {
        let id = id.as_ref().map_or("", ExecutionId::as_str);
        let request_hash = posting::hash(&[b"graph", id.as_bytes(), &input_hash]);
        Idempotency { key, request_hash }
    });
    let now = door.clock.now();
    let execution = match (id.clone(), &idempotency) {
        (Some(id), _) => id,
        (None, Some(idempotency)) => posting::id_of_key(&caller.tenant, &idempotency.key)?,
        (None, None) => posting::parse_id(entropy::uuid_v7(now, &*door.entropy))?,
    };
    let key = ExecutionKey { tenant: caller.tenant.clone(), execution };
    let new = NewGraph {
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
            let recalled = posting::recall(door, refused).await?.pop();
            recalled.ok_or_else(|| Problem::new(Kind::Internal, "the store gave no verdict"))??;
            return Ok((Made::Existed, find(door, &key).await?));
        }
    };
    let made = accept(door, new, id.is_some()).await?;
    Ok((made, find(door, &key).await?))
}

/// Admission comes first: the check of a tenant over its quota costs nothing.
async fn admit_and_check(
    door: &Door,
    caller: &Caller,
    slot: &Slot,
    new: NewGraph,
    bytes: usize,
) -> Result<NewExecution, Problem> {
    slot.admit_new()?;
    let charge = StartCharge { key: &new.key, events: 2, bytes: new.spec.name.len() + new.spec.input.len() };
    door.admit_start(&caller.tenant, charge).await?;
    let bytes = bytes.max(graph::graph_check_bytes(&new.spec));
    let now = door.clock.now();
    let checked = heavy(&door.machines.compilations, bytes, move || graph_start::start(new, now)).await?;
    checked.map_err(refusal)
}

async fn accept(door: &Door, new: NewExecution, named: bool) -> Result<Made, Problem> {
    let (key, idempotency) = (new.key.clone(), new.start.idempotency.clone());
    let definition: DefinitionRef = new.definition.clone();
    let verdict = door.accept.submit(vec![Append::Start(Box::new(new))]).await?.pop();
    match verdict {
        Some(Verdict::Stored(Appended::Accepted { .. })) => {
            door.machines.started(key, definition);
            Ok(Made::Created)
        }
        Some(Verdict::Stored(Appended::Repeat { .. })) => Ok(Made::Existed),
        Some(Verdict::Stored(Appended::Mismatch)) => {
            let reused = match idempotency {
                None => false,
                Some(_) if !named => true,
                Some(idempotency) => {
                    let asked = [(key.tenant.clone(), idempotency)];
                    door.stores.events.seen(&asked).await? == [Some(Appended::Mismatch)]
                }
            };
            Err(if reused {
                Problem::new(Kind::KeyReused, "this idempotency key was used before with another request")
            } else {
                let id = key.execution.as_str();
                Problem::new(Kind::Exists, format!("{id:?} already exists with different content"))
            })
        }
        Some(
            Verdict::Stored(
                Appended::NoExecution
                | Appended::Delivered { .. }
                | Appended::Buffered
                | Appended::Ambiguous { .. },
            )
            | Verdict::Refused,
        )
        | None => Err(Problem::new(Kind::Internal, "the store cannot take this graph")),
    }
}

fn refusal(invalid: Invalid) -> Problem {
    match invalid {
        Invalid::TooLarge(fault) => {
            Problem { faults: vec![fault.clone()], ..Problem::new(Kind::TooLarge, fault.to_string()) }
        }
        Invalid::Problems(Problems(faults)) => Problem::invalid(faults),
    }
}

/// Whether this is the built-in definition of all graphs.
pub(crate) fn is_graph(definition: &DefinitionRef) -> bool {
    definition.name == Name::graph()
}

//! A graph execution, ready to be appended: the same for a client's request and for a node of another
//! graph.

use millstream_core::graph::{self, GraphSpec, Invalid};
use millstream_core::id::{DefinitionRef, EventId, ExecutionKey, Name};
use millstream_core::log::{Origin, Parent};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::event_log::{Idempotency, NewEvent, NewExecution};
use serde::Serialize;

use crate::graph_rows;

/// Below this many bytes, by [`graph::graph_check_bytes`], moving the check to a pool costs more than the
/// check itself.
pub const INLINE_CHECK_BYTES: usize = 64 * 1024;

/// A graph to start, with its origin.
#[derive(Debug)]
pub struct NewGraph {
    pub key: ExecutionKey,
    pub spec: GraphSpec,
    /// Of `millstream.start` and of `millstream.begin`.
    pub event_ids: [EventId; 2],
    /// Identifies repeats.
    pub input_hash: [u8; 32],
    pub idempotency: Option<Idempotency>,
    pub parent: Option<Parent>,
    /// The name of the caller's key.
    pub actor: Option<String>,
    pub traceparent: Option<String>,
}

/// The payload of the start event: the graph itself is in the transition.
#[derive(Serialize)]
struct Summary<'a> {
    name: &'a str,
    nodes: usize,
    input: &'a RawJson,
}

/// Decides the creation.
pub fn start(new: NewGraph, now: Timestamp) -> Result<NewExecution, Invalid> {
    let NewGraph { key, spec, event_ids: [start_id, begin_id], .. } = new;
    let payload = RawJson::of(&Summary { name: &spec.name, nodes: spec.nodes.len(), input: &spec.input });
    let (applied, state) = graph::create(spec, new.actor.clone(), start_id, new.parent, now)?;
    let graph = state.graph.as_ref().map(|graph| Box::new(graph_rows::of_start(&applied.transition, graph)));
    let event = |event_id, name, payload, idempotency| NewEvent {
        event_id,
        execution: key.clone(),
        name,
        payload,
        origin: Origin::Posted,
        idempotency,
        actor: new.actor.clone(),
        traceparent: new.traceparent.clone(),
    };
    Ok(NewExecution {
        definition: DefinitionRef { name: Name::graph(), version: 1 },
        input_hash: new.input_hash,
        start: event(start_id, Name::start(), payload, new.idempotency),
        events: vec![event(begin_id, Name::begin(), RawJson::null(), None)],
        key: key.clone(),
        applied,
        state,
        graph,
    })
}

//! A graph execution, ready to be appended: the same for a client's request and for a node of another
//! graph.

use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, Name};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::event_log::{EventSubmission, ExecutionStart, IdempotencyKey};
use millstream_workflow::graph::{GraphSpec, InvalidGraph};
use millstream_workflow::graph_machine;
use millstream_workflow::log::{EventOrigin, ExecutionParent};
use serde::Serialize;

use crate::graph_rows;

/// Below this many bytes, by [`graph_check_bytes`](millstream_workflow::graph::graph_check_bytes), moving the
/// check to a pool costs more than the check itself.
pub const INLINE_CHECK_BYTES: usize = 64 * 1024;

/// A graph to start, with its origin.
#[derive(Debug)]
pub struct GraphStart {
    pub key: ExecutionKey,
    pub spec: GraphSpec,
    /// Of `millstream.start` and of `millstream.begin`.
    pub event_ids: [EventId; 2],
    /// Identifies repeats.
    pub input_hash: [u8; 32],
    pub idempotency: Option<IdempotencyKey>,
    pub parent: Option<ExecutionParent>,
    /// The name of the caller's key.
    pub actor: Option<String>,
    pub traceparent: Option<String>,
}

/// The payload of the start event: the graph itself is in the transition.
#[derive(Serialize)]
struct GraphStartSummary<'a> {
    name: &'a str,
    nodes: usize,
    input: &'a RawJson,
}

/// Decides the creation.
pub fn start_graph(new: GraphStart, now: Timestamp) -> Result<ExecutionStart, InvalidGraph> {
    let GraphStart { key, spec, event_ids: [start_id, begin_id], .. } = new;
    let payload = RawJson::from_value(&GraphStartSummary {
        name: &spec.name,
        nodes: spec.nodes.len(),
        input: &spec.input,
    });
    let (applied, state) = graph_machine::create_graph(spec, new.actor.clone(), start_id, new.parent, now)?;
    let graph =
        state.graph.as_ref().map(|graph| Box::new(graph_rows::rows_of_start(&applied.transition, graph)));
    let event = |event_id, name, payload, idempotency| EventSubmission {
        event_id,
        execution: key.clone(),
        name,
        payload,
        origin: EventOrigin::Posted,
        idempotency,
        actor: new.actor.clone(),
        traceparent: new.traceparent.clone(),
    };
    Ok(ExecutionStart {
        definition: DefinitionRef { name: Name::graph(), version: 1 },
        input_hash: new.input_hash,
        start: event(start_id, Name::start_event(), payload, new.idempotency),
        events: vec![event(begin_id, Name::begin(), RawJson::null(), None)],
        key: key.clone(),
        applied,
        state,
        graph,
    })
}

//! The first transition of a graph: seq 1, `millstream.start`. No node runs before `millstream.begin`.

use std::sync::Arc;

use millstream_model::context::ExecutionContext;
use millstream_model::id::{EventId, Name, Seq};
use millstream_model::status::ExecutionPhase;
use millstream_model::time::Timestamp;

use crate::graph::{CreatedGraph, GraphChange, GraphSpec, InvalidGraph, validate_graph};
use crate::log::{
    AppliedEvent, ArmedTimer, ExecutionParent, ExecutionState, FORMAT, StateEntry, Transition,
    TransitionDecision,
};
use crate::machine::evolve;

/// Decides the creation of a graph; `parent` is the node that starts it as a child.
pub fn create_graph(
    spec: GraphSpec,
    creator: Option<String>,
    event_id: EventId,
    parent: Option<ExecutionParent>,
    now: Timestamp,
) -> Result<(AppliedEvent, ExecutionState), InvalidGraph> {
    validate_graph(&spec)?;
    let timeout = spec.options.timeout.map(|timeout| ArmedTimer {
        armed_seq: ArmedTimer::EXECUTION_TIMEOUT,
        ordinal: 0,
        fire_at: now.plus(timeout),
        send: Name::timeout_event(),
    });
    let created = Some(Arc::new(CreatedGraph { graph: spec, creator }));
    let transition = Transition {
        seq: Seq::FIRST,
        event_id,
        name: Name::start_event(),
        at: now,
        decision: TransitionDecision {
            format: FORMAT,
            branch: 0,
            from: None,
            to: Name::reserved_name("running"),
            entered: StateEntry::Entered,
            set: ExecutionContext::new(),
            phase: ExecutionPhase::Active,
            reason: None,
            timers: timeout.into_iter().collect(),
            actions: Vec::new(),
            parent,
            correlation: None,
            graph: Some(Box::new(GraphChange { created, ..GraphChange::default() })),
        },
    };
    let state = evolve(None, &transition);
    Ok((AppliedEvent { transition, actions: Vec::new() }, state))
}

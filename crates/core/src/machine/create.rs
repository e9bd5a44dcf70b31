//! The first transition of an execution: seq 1, `millstream.start`.

use super::compile::Machine;
use super::correlation::correlation;
use super::evolve::evolve;
use super::step::{arm, phase_of};
use crate::expr::Budget;
use crate::id::{EventId, Name, Seq};
use crate::log::{
    Applied, ArmedTimer, Context, Decision, Entry, FORMAT, MAX_CONTEXT_BYTES, Parent, State, Transition,
    context_bytes,
};
use crate::raw::RawJson;
use crate::time::Timestamp;

/// Why nothing was created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Rejection {
    pub reason: String,
}

/// Decides the creation of an execution that nobody's action starts; see [`create_child`].
pub fn create(
    machine: &Machine,
    event_id: EventId,
    input: &RawJson,
    now: Timestamp,
) -> Result<(Applied, State), Rejection> {
    create_child(machine, event_id, input, None, now)
}

/// Decides the creation of an execution. `input` is an object, merged over the definition's context
/// key by key, or null. A child whose initial state is final cannot tell its parent: it is refused.
pub fn create_child(
    machine: &Machine,
    event_id: EventId,
    input: &RawJson,
    parent: Option<Parent>,
    now: Timestamp,
) -> Result<(Applied, State), Rejection> {
    let definition = machine.definition();
    let mut context = definition.context().clone();
    let input: Option<Context> =
        input.decode().map_err(|_| Rejection { reason: "the input must be an object".to_owned() })?;
    context.extend(input.unwrap_or_default());
    if context_bytes(&context) > MAX_CONTEXT_BYTES {
        let reason = format!("the context would be larger than {} KiB", MAX_CONTEXT_BYTES / 1024);
        return Err(Rejection { reason });
    }
    let correlation =
        correlation(machine, &context, &Budget::default()).map_err(|reason| Rejection { reason })?;
    let initial = definition.initial();
    let phase = phase_of(machine, initial);
    if phase.is_ended() && parent.is_some() {
        let reason = "its first state is final: a child execution has to do something".to_owned();
        return Err(Rejection { reason });
    }
    let mut timers = Vec::new();
    if !phase.is_ended() {
        if let Some(timeout) = definition.timeout() {
            timers.push(ArmedTimer {
                armed_seq: ArmedTimer::EXECUTION_TIMEOUT,
                ordinal: 0,
                fire_at: now.plus(timeout),
                send: Name::timeout(),
            });
        }
        timers.extend(arm(machine, initial, Seq::FIRST, now));
    }
    let transition = Transition {
        seq: Seq::FIRST,
        event_id,
        name: Name::start(),
        at: now,
        decision: Decision {
            format: FORMAT,
            branch: 0,
            from: None,
            to: initial.clone(),
            entered: Entry::Entered,
            set: context,
            phase,
            reason: None,
            timers,
            actions: Vec::new(),
            parent,
            correlation,
            graph: None,
        },
    };
    let state = evolve(None, &transition);
    Ok((Applied { transition, actions: Vec::new() }, state))
}

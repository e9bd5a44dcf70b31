//! The first transition of a graph: seq 1, `millstream.start`. No node runs before `millstream.begin`.

use std::sync::Arc;

use super::change::{Change, Created};
use super::check::validate;
use super::found::Invalid;
use super::spec::GraphSpec;
use crate::id::{EventId, Name, Seq};
use crate::log::{Applied, ArmedTimer, Context, Decision, Entry, FORMAT, Parent, State, Transition};
use crate::machine::evolve;
use crate::status::Phase;
use crate::time::Timestamp;

/// Decides the creation of a graph; `parent` is the node that starts it as a child.
pub fn create(
    spec: GraphSpec,
    creator: Option<String>,
    event_id: EventId,
    parent: Option<Parent>,
    now: Timestamp,
) -> Result<(Applied, State), Invalid> {
    validate(&spec)?;
    let timeout = spec.options.timeout.map(|timeout| ArmedTimer {
        armed_seq: ArmedTimer::EXECUTION_TIMEOUT,
        ordinal: 0,
        fire_at: now.plus(timeout),
        send: Name::timeout(),
    });
    let created = Some(Arc::new(Created { graph: spec, creator }));
    let transition = Transition {
        seq: Seq::FIRST,
        event_id,
        name: Name::start(),
        at: now,
        decision: Decision {
            format: FORMAT,
            branch: 0,
            from: None,
            to: Name::reserved("running"),
            entered: Entry::Entered,
            set: Context::new(),
            phase: Phase::Active,
            reason: None,
            timers: timeout.into_iter().collect(),
            actions: Vec::new(),
            parent,
            correlation: None,
            graph: Some(Box::new(Change { created, ..Change::default() })),
        },
    };
    let state = evolve(None, &transition);
    Ok((Applied { transition, actions: Vec::new() }, state))
}

//! The pure step of a graph: decides one event.
//!
//! Like the step of a machine: the same state, event and time give the same outcome. An invalid event is
//! rejected with the reason; a problem of a node becomes the node's status.

use super::change::Change;
use super::edited::edit;
use super::ending::{Ending, cut, ending, may_have_children};
use super::outcome::{Followed, outcome};
use super::ripple::Ripple;
use super::state::Graph;
use crate::duration;
use crate::expr::Budget;
use crate::id::{Name, Seq};
use crate::log::{
    Applied, ArmedTimer, Context, Decision, Entry, FORMAT, Origin, Outcome, PlannedAction, State, Transition,
    Waiting,
};
use crate::machine::{ENDED, at_the_end, given_reason};
use crate::status::Phase;
use crate::time::Timestamp;

/// Decides one event. `now` is the time of the store; the transition takes this time, or that of the previous
/// transition if it is later.
pub fn step(state: &State, event: &Waiting, now: Timestamp) -> Outcome {
    step_within(state, event, now, &Budget::default())
}

/// Decides one event; one budget pays for all expressions evaluated on the way. Once it is exhausted,
/// conditions and lists cannot be evaluated and their nodes end with that reason; an edit is rejected. If the
/// stop rule ended the budget, the outcome is invalid and must be discarded.
pub fn step_within(state: &State, event: &Waiting, now: Timestamp, budget: &Budget<'_>) -> Outcome {
    decide(state, event, now.max(state.at), budget).unwrap_or_else(|reason| Outcome::Rejected { reason })
}

fn decide(state: &State, event: &Waiting, at: Timestamp, budget: &Budget<'_>) -> Result<Outcome, String> {
    if state.phase.is_ended() {
        return Err(ENDED.to_owned());
    }
    let Some(graph) = state.graph.as_deref() else { return Err("there is no graph".to_owned()) };
    let scene = Scene { state, graph, event, at };
    match event.origin {
        Origin::Timer { armed_seq } if armed_seq == ArmedTimer::EXECUTION_TIMEOUT => {
            let after = graph
                .options
                .timeout
                .map_or_else(String::new, |length| format!(" after {}", duration::format(length)));
            let reason = Some(format!("timed out{after}"));
            return Ok(scene.cut(Ending { phase: Phase::Failed, reason }, "timed out"));
        }
        Origin::Timer { .. } => return Err("a graph has no timers but its timeout".to_owned()),
        Origin::Posted => {}
    }
    if event.name.is_end() {
        let (phase, why) = if event.name == Name::fail() {
            (Phase::Failed, "failed")
        } else {
            (Phase::Cancelled, "cancelled")
        };
        return Ok(scene.cut(Ending { phase, reason: given_reason(&event.payload) }, why));
    }
    let has_begun = state.seq != Seq::FIRST;
    if event.name == Name::begin() {
        return if has_begun {
            Err("the graph has begun already".to_owned())
        } else {
            Ok(scene.begin(budget))
        };
    }
    if !has_begun {
        return Err("the graph has not begun".to_owned());
    }
    if event.name == Name::node_outcome() {
        return outcome(graph, &event.payload, at, budget).map(|followed| scene.followed(followed));
    }
    if event.name == Name::edit() {
        let followed = edit(graph, &event.payload, budget)?;
        return match budget.end() {
            Some(end) => Err(end.reason().to_owned()),
            None => Ok(scene.followed(followed)),
        };
    }
    Err(format!("a graph does not handle {:?}", event.name.as_str()))
}

struct Scene<'a> {
    state: &'a State,
    graph: &'a Graph,
    event: &'a Waiting,
    at: Timestamp,
}

impl Scene<'_> {
    fn begin(&self, budget: &Budget<'_>) -> Outcome {
        let mut ripple = Ripple::new(budget);
        ripple.look_at(self.graph, self.graph.ready.iter());
        ripple.spread(self.graph);
        ripple.fill_room(self.graph);
        self.followed(Followed { patched: None, ripple })
    }

    fn followed(&self, followed: Followed<'_>) -> Outcome {
        let Followed { patched, mut ripple } = followed;
        let graph = patched.as_ref().map_or(self.graph, |(_, graph)| graph);
        let ending = ending(graph, &ripple);
        let mut actions = std::mem::take(&mut ripple.actions);
        if let Some(ending) = &ending {
            let after = ending.told(self.state, graph, &ripple.changes);
            at_the_end(&after, &mut actions, may_have_children(graph));
        }
        let change = Change {
            created: None,
            patch: patched.map(|(patch, _)| patch),
            expanded: ripple.expanded,
            nodes: ripple.changes,
        };
        self.applied(change, ending, actions)
    }

    /// Ends the graph with its open nodes skipped.
    fn cut(&self, ending: Ending, why: &str) -> Outcome {
        let nodes = cut(self.graph, why);
        let after = ending.told(self.state, self.graph, &nodes);
        let mut actions = Vec::new();
        at_the_end(&after, &mut actions, may_have_children(self.graph));
        self.applied(Change { nodes, ..Change::default() }, Some(ending), actions)
    }

    fn applied(&self, change: Change, ending: Option<Ending>, actions: Vec<PlannedAction>) -> Outcome {
        let to = ending.as_ref().map_or_else(|| self.state.state.clone(), Ending::state);
        let (entered, phase, reason) = match ending {
            Some(Ending { phase, reason }) => (Entry::Entered, phase, reason),
            None => (Entry::Stayed, self.state.phase, None),
        };
        let decision = Decision {
            format: FORMAT,
            branch: 0,
            from: Some(self.state.state.clone()),
            to,
            entered,
            set: Context::new(),
            phase,
            reason,
            timers: Vec::new(),
            actions: Vec::new(),
            parent: None,
            correlation: None,
            graph: Some(Box::new(change)),
        };
        let transition = Transition {
            seq: self.state.seq.next(),
            event_id: self.event.event_id,
            name: self.event.name.clone(),
            at: self.at,
            decision,
        };
        Outcome::Applied(Box::new(Applied { transition, actions }))
    }
}

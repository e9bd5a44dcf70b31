//! The pure step of a graph: decides one event.
//!
//! Like the step of a machine: the same state, event and time give the same outcome. An invalid event is
//! rejected with the reason; a problem of a node becomes the node's status.

use millstream_expr::ExprBudget;
use millstream_model::context::ExecutionContext;
use millstream_model::duration;
use millstream_model::id::{Name, Seq};
use millstream_model::status::ExecutionPhase;
use millstream_model::time::Timestamp;

use super::edit::decide_edit;
use super::ending::{GraphEnding, ending_of, may_have_children, skip_open_nodes};
use super::outcome::{NodeOutcomeEffect, decide_outcome};
use super::propagate::GraphPropagation;
use crate::graph::{Graph, GraphChange};
use crate::log::{
    AppliedEvent, ArmedTimer, EventOrigin, EventOutcome, ExecutionState, FORMAT, MailboxEvent, PlannedAction,
    StateEntry, Transition, TransitionDecision,
};
use crate::machine::{ENDED, plan_end_actions, requested_reason};

/// Decides one event. `now` is the time of the store; the transition takes this time, or that of the previous
/// transition if it is later.
pub fn step_graph(state: &ExecutionState, event: &MailboxEvent, now: Timestamp) -> EventOutcome {
    step_graph_within(state, event, now, &ExprBudget::default())
}

/// Decides one event; one budget pays for all expressions evaluated on the way. Once it is exhausted,
/// conditions and lists cannot be evaluated and their nodes end with that reason; an edit is rejected. If the
/// stop rule ended the budget, the outcome is invalid and must be discarded.
pub fn step_graph_within(
    state: &ExecutionState,
    event: &MailboxEvent,
    now: Timestamp,
    budget: &ExprBudget<'_>,
) -> EventOutcome {
    decide_event(state, event, now.max(state.at), budget)
        .unwrap_or_else(|reason| EventOutcome::Rejected { reason })
}

fn decide_event(
    state: &ExecutionState,
    event: &MailboxEvent,
    at: Timestamp,
    budget: &ExprBudget<'_>,
) -> Result<EventOutcome, String> {
    if state.phase.is_ended() {
        return Err(ENDED.to_owned());
    }
    let Some(graph) = state.graph.as_deref() else { return Err("there is no graph".to_owned()) };
    let scene = GraphStep { state, graph, event, at };
    match event.origin {
        EventOrigin::Timer { armed_seq } if armed_seq == ArmedTimer::EXECUTION_TIMEOUT => {
            let after = graph
                .options
                .timeout
                .map_or_else(String::new, |length| format!(" after {}", duration::format_duration(length)));
            let reason = Some(format!("timed out{after}"));
            return Ok(scene.cut_short(GraphEnding { phase: ExecutionPhase::Failed, reason }, "timed out"));
        }
        EventOrigin::Timer { .. } => return Err("a graph has no timers but its timeout".to_owned()),
        EventOrigin::Posted => {}
    }
    if event.name.is_end() {
        let (phase, why) = if event.name == Name::fail_event() {
            (ExecutionPhase::Failed, "failed")
        } else {
            (ExecutionPhase::Cancelled, "cancelled")
        };
        return Ok(scene.cut_short(GraphEnding { phase, reason: requested_reason(&event.payload) }, why));
    }
    let has_begun = state.seq != Seq::FIRST;
    if event.name == Name::begin() {
        return if has_begun {
            Err("the graph has begun already".to_owned())
        } else {
            Ok(scene.begin_graph(budget))
        };
    }
    if !has_begun {
        return Err("the graph has not begun".to_owned());
    }
    if event.name == Name::node_outcome() {
        return decide_outcome(graph, &event.payload, at, budget)
            .map(|followed| scene.apply_followed(followed));
    }
    if event.name == Name::edit() {
        let followed = decide_edit(graph, &event.payload, budget)?;
        return match budget.end() {
            Some(end) => Err(end.reason().to_owned()),
            None => Ok(scene.apply_followed(followed)),
        };
    }
    Err(format!("a graph does not handle {:?}", event.name.as_str()))
}

struct GraphStep<'a> {
    state: &'a ExecutionState,
    graph: &'a Graph,
    event: &'a MailboxEvent,
    at: Timestamp,
}

impl GraphStep<'_> {
    fn begin_graph(&self, budget: &ExprBudget<'_>) -> EventOutcome {
        let mut ripple = GraphPropagation::new(budget);
        ripple.evaluate_ready(self.graph, self.graph.ready.iter());
        ripple.propagate_ends(self.graph);
        ripple.dispatch_ready(self.graph);
        self.apply_followed(NodeOutcomeEffect { patched: None, ripple })
    }

    fn apply_followed(&self, followed: NodeOutcomeEffect<'_>) -> EventOutcome {
        let NodeOutcomeEffect { patched, mut ripple } = followed;
        let graph = patched.as_ref().map_or(self.graph, |(_, graph)| graph);
        let ending = ending_of(graph, &ripple);
        let mut actions = std::mem::take(&mut ripple.actions);
        if let Some(ending) = &ending {
            let after = ending.final_state(self.state, graph, &ripple.changes);
            plan_end_actions(&after, &mut actions, may_have_children(graph));
        }
        let change = GraphChange {
            created: None,
            patch: patched.map(|(patch, _)| patch),
            expanded: ripple.expanded,
            nodes: ripple.changes,
        };
        self.apply_change(change, ending, actions)
    }

    /// Ends the graph with its open nodes skipped.
    fn cut_short(&self, ending: GraphEnding, why: &str) -> EventOutcome {
        let nodes = skip_open_nodes(self.graph, why);
        let after = ending.final_state(self.state, self.graph, &nodes);
        let mut actions = Vec::new();
        plan_end_actions(&after, &mut actions, may_have_children(self.graph));
        self.apply_change(GraphChange { nodes, ..GraphChange::default() }, Some(ending), actions)
    }

    fn apply_change(
        &self,
        change: GraphChange,
        ending: Option<GraphEnding>,
        actions: Vec<PlannedAction>,
    ) -> EventOutcome {
        let to = ending.as_ref().map_or_else(|| self.state.state.clone(), GraphEnding::final_state_name);
        let (entered, phase, reason) = match ending {
            Some(GraphEnding { phase, reason }) => (StateEntry::Entered, phase, reason),
            None => (StateEntry::Stayed, self.state.phase, None),
        };
        let decision = TransitionDecision {
            format: FORMAT,
            branch: 0,
            from: Some(self.state.state.clone()),
            to,
            entered,
            set: ExecutionContext::new(),
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
        EventOutcome::Applied(Box::new(AppliedEvent { transition, actions }))
    }
}

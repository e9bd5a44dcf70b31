//! One visit to a mailbox: which event meets the state next.
//!
//! Undecided events are taken in the order of their acceptance. Deferred ones go first whenever a state
//! has been entered, in order, each time from the beginning; they are also offered once at the start,
//! which changes nothing as long as every turn has seen all of them, and repairs it if one has not.
//! While an execution is paused only its end by request is decided.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use super::compile::Machine;
use super::evolve::fold;
use super::step::step_within;
use crate::effort::{VisitEffort, VisitLimits};
use crate::id::EventId;
use crate::log::{Entry, Kept, Origin, Outcome, State, Turn, Waiting};
use crate::status::{ExecutionStatus, PauseState};
use crate::time::Timestamp;

/// Why an event that came too late is rejected.
pub const ENDED: &str = "execution ended";

/// How many events one execution may keep for later.
pub const MAX_DEFERRED: usize = 1_000;

/// Decides a slice of a mailbox: `mailbox` holds undecided events in the order of their acceptance and
/// every deferred one. What is not among the outcomes stays as it is.
pub fn turn(machine: &Machine, state: State, mailbox: &[Waiting], pause: PauseState, now: Timestamp) -> Turn {
    turn_within(machine, state, mailbox, pause, now, VisitLimits::NONE)
}

/// Like [`turn`], ended early by the limits. What a shorter visit decides is what a longer one would have
/// decided first, since a visit begins with the deferred events.
pub fn turn_within(
    machine: &Machine,
    state: State,
    mailbox: &[Waiting],
    pause: PauseState,
    now: Timestamp,
    limits: VisitLimits<'_>,
) -> Turn {
    let of = |kept: Kept| mailbox.iter().filter(move |event| event.kept == kept);
    let mut undecided: VecDeque<&Waiting> = of(Kept::Undecided).collect();
    let mut visit = Visit {
        machine,
        now,
        state,
        outcomes: Vec::new(),
        deferred: of(Kept::Deferred).collect(),
        effort: VisitEffort::new(limits),
    };
    match ExecutionStatus::of(visit.state.phase, pause) {
        ExecutionStatus::Paused => {
            let cancel = undecided.iter().position(|event| event.name.is_end());
            let Some(event) = cancel.and_then(|at| undecided.remove(at)) else { return visit.leave() };
            if visit.decide(event).is_continue() {
                return visit.leave();
            }
        }
        ExecutionStatus::Active
        | ExecutionStatus::Completed
        | ExecutionStatus::Failed
        | ExecutionStatus::Cancelled => {}
    }
    visit.offer_deferred();
    for event in undecided {
        if visit.effort.has_ended() {
            break;
        }
        if visit.decide(event).is_break() {
            visit.offer_deferred();
        }
    }
    visit.leave()
}

struct Visit<'a> {
    machine: &'a Machine,
    now: Timestamp,
    state: State,
    outcomes: Vec<(EventId, Outcome)>,
    /// Kept so far, in order: those from earlier and those that this visit kept.
    deferred: VecDeque<&'a Waiting>,
    effort: VisitEffort<'a>,
}

impl<'a> Visit<'a> {
    /// Decides an undecided event. Breaks when deferred events have to be offered before the next one.
    fn decide(&mut self, event: &'a Waiting) -> ControlFlow<()> {
        let Some(outcome) = self.step(event) else { return ControlFlow::Continue(()) };
        let outcome = match outcome {
            Outcome::Deferred if self.deferred.len() < MAX_DEFERRED => {
                self.deferred.push_back(event);
                return ControlFlow::Continue(());
            }
            Outcome::Deferred => Outcome::Rejected {
                reason: format!("{MAX_DEFERRED} events are deferred already, no more are kept"),
            },
            decided @ (Outcome::Applied(_) | Outcome::Rejected { .. }) => decided,
        };
        self.record(event, outcome)
    }

    /// `None` where the stop rule ended it: the event stays as it is.
    fn step(&mut self, event: &Waiting) -> Option<Outcome> {
        let (machine, state, now) = (self.machine, &self.state, self.now);
        self.effort.decide(event.event_id, |budget| step_within(machine, state, event, now, budget))
    }

    /// Offers what is kept to the state, from the beginning again after each change of state.
    fn offer_deferred(&mut self) {
        let mut next = 0;
        while let Some(event) = self.deferred.get(next).copied() {
            if self.waits_on(event) {
                next += 1;
                continue;
            }
            if self.effort.has_ended() {
                return;
            }
            let Some(outcome) = self.step(event) else { return };
            match outcome {
                Outcome::Deferred => next += 1,
                decided @ (Outcome::Applied(_) | Outcome::Rejected { .. }) => {
                    self.deferred.remove(next);
                    if self.record(event, decided).is_break() {
                        next = 0;
                    }
                }
            }
        }
    }

    /// Once kept, an event is kept until a state handles it; a state on the way need not name it. A
    /// timer that became stale meanwhile goes at once.
    fn waits_on(&self, event: &Waiting) -> bool {
        match event.origin {
            Origin::Timer { .. } => false,
            Origin::Posted => {
                !self.state.phase.is_ended()
                    && self.machine.alternatives(&self.state.state, &event.name).is_none()
            }
        }
    }

    fn record(&mut self, event: &Waiting, outcome: Outcome) -> ControlFlow<()> {
        let flow = match &outcome {
            Outcome::Applied(applied) => {
                fold(&mut self.state, &applied.transition);
                match (applied.transition.decision.entered, self.state.phase.is_ended()) {
                    (Entry::Entered, _) | (Entry::Stayed, true) => ControlFlow::Break(()),
                    (Entry::Stayed, false) => ControlFlow::Continue(()),
                }
            }
            Outcome::Rejected { .. } | Outcome::Deferred => ControlFlow::Continue(()),
        };
        self.outcomes.push((event.event_id, outcome));
        flow
    }

    /// What was kept for the first time is an outcome; what was kept before stays without one.
    fn leave(mut self) -> Turn {
        let fresh = self.deferred.iter().filter(|event| event.kept == Kept::Undecided);
        self.outcomes.extend(fresh.map(|event| (event.event_id, Outcome::Deferred)));
        Turn { outcomes: self.outcomes, state: self.state, unfinished: self.effort.unfinished() }
    }
}

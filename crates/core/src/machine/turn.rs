//! One visit to a mailbox: the order in which its events are decided.
//!
//! Undecided events are decided in order of acceptance. After every state entry the deferred events are
//! offered first, in order, each time from the start; they are also offered once at the start of a visit,
//! which has no effect if every earlier visit has seen all of them, and repairs the mailbox otherwise.
//! While an execution is paused, only its end by request is decided.

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

/// Rejection reason of an event that arrives after the end.
pub const ENDED: &str = "execution ended";

/// Most deferred events per execution.
pub const MAX_DEFERRED: usize = 1_000;

/// Decides a slice of a mailbox: `mailbox` holds undecided events in order of acceptance and all deferred
/// events. Events without an outcome stay unchanged.
pub fn turn(machine: &Machine, state: State, mailbox: &[Waiting], pause: PauseState, now: Timestamp) -> Turn {
    turn_within(machine, state, mailbox, pause, now, VisitLimits::NONE)
}

/// Like [`turn`], but ends early at the limits. The decisions of a shorter visit are a prefix of those of a
/// longer visit, because a visit starts with the deferred events.
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
    /// Deferred events in order: those of earlier visits and those of this visit.
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
                reason: format!("the limit of {MAX_DEFERRED} deferred events is reached"),
            },
            decided @ (Outcome::Applied(_) | Outcome::Rejected { .. }) => decided,
        };
        self.record(event, outcome)
    }

    /// `None` if the stop rule abandoned it: the event stays undecided.
    fn step(&mut self, event: &Waiting) -> Option<Outcome> {
        let (machine, state, now) = (self.machine, &self.state, self.now);
        self.effort.decide(event.event_id, |budget| step_within(machine, state, event, now, budget))
    }

    /// Offers the deferred events to the state, again from the start after each change of state.
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

    /// A deferred event stays deferred until a state handles it; states in between need not defer it again. A
    /// timer that has become stale is rejected at once.
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

    /// Events deferred in this visit get the outcome `Deferred`; events deferred earlier get none.
    fn leave(mut self) -> Turn {
        let fresh = self.deferred.iter().filter(|event| event.kept == Kept::Undecided);
        self.outcomes.extend(fresh.map(|event| (event.event_id, Outcome::Deferred)));
        Turn { outcomes: self.outcomes, state: self.state, unfinished: self.effort.unfinished() }
    }
}

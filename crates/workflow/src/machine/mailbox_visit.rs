//! One visit to a mailbox: the order in which its events are decided.
//!
//! Undecided events are decided in order of acceptance. After every state entry the deferred events are
//! offered first, in order, each time from the start; they are also offered once at the start of a visit,
//! which has no effect if every earlier visit has seen all of them, and repairs the mailbox otherwise.
//! While an execution is paused, only its end by request is decided.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use millstream_model::id::EventId;
use millstream_model::status::{ExecutionStatus, PauseState};
use millstream_model::time::Timestamp;

use super::compile::Machine;
use super::evolve::fold_transition;
use super::step::step_within;
use crate::log::{
    EventOrigin, EventOutcome, ExecutionState, MailboxEvent, MailboxState, StateEntry, VisitDecisions,
};
use crate::visit_limits::{VisitEffort, VisitLimits};

/// Rejection reason of an event that arrives after the end.
pub const ENDED: &str = "execution ended";

/// Most deferred events per execution.
pub const MAX_DEFERRED: usize = 1_000;

/// Decides a slice of a mailbox: `mailbox` holds undecided events in order of acceptance and all deferred
/// events. Events without an outcome stay unchanged.
pub fn decide_mailbox(
    machine: &Machine,
    state: ExecutionState,
    mailbox: &[MailboxEvent],
    pause: PauseState,
    now: Timestamp,
) -> VisitDecisions {
    decide_mailbox_within(machine, state, mailbox, pause, now, VisitLimits::NONE)
}

/// Like [`decide_mailbox`], but ends early at the limits. The decisions of a shorter visit are a prefix of those of a
/// longer visit, because a visit starts with the deferred events.
pub fn decide_mailbox_within(
    machine: &Machine,
    state: ExecutionState,
    mailbox: &[MailboxEvent],
    pause: PauseState,
    now: Timestamp,
    limits: VisitLimits<'_>,
) -> VisitDecisions {
    let of = |kept: MailboxState| mailbox.iter().filter(move |event| event.kept == kept);
    let mut undecided: VecDeque<&MailboxEvent> = of(MailboxState::Undecided).collect();
    let mut visit = MachineVisit {
        machine,
        now,
        state,
        outcomes: Vec::new(),
        deferred: of(MailboxState::Deferred).collect(),
        effort: VisitEffort::new(limits),
    };
    match ExecutionStatus::of_phase(visit.state.phase, pause) {
        ExecutionStatus::Paused => {
            let cancel = undecided.iter().position(|event| event.name.is_end());
            let Some(event) = cancel.and_then(|at| undecided.remove(at)) else {
                return visit.into_decisions();
            };
            if visit.decide_undecided(event).is_continue() {
                return visit.into_decisions();
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
        if visit.decide_undecided(event).is_break() {
            visit.offer_deferred();
        }
    }
    visit.into_decisions()
}

struct MachineVisit<'a> {
    machine: &'a Machine,
    now: Timestamp,
    state: ExecutionState,
    outcomes: Vec<(EventId, EventOutcome)>,
    /// Deferred events in order: those of earlier visits and those of this visit.
    deferred: VecDeque<&'a MailboxEvent>,
    effort: VisitEffort<'a>,
}

impl<'a> MachineVisit<'a> {
    /// Decides an undecided event. Breaks when deferred events have to be offered before the next one.
    fn decide_undecided(&mut self, event: &'a MailboxEvent) -> ControlFlow<()> {
        let Some(outcome) = self.step_event(event) else { return ControlFlow::Continue(()) };
        let outcome = match outcome {
            EventOutcome::Deferred if self.deferred.len() < MAX_DEFERRED => {
                self.deferred.push_back(event);
                return ControlFlow::Continue(());
            }
            EventOutcome::Deferred => EventOutcome::Rejected {
                reason: format!("the limit of {MAX_DEFERRED} deferred events is reached"),
            },
            decided @ (EventOutcome::Applied(_) | EventOutcome::Rejected { .. }) => decided,
        };
        self.record_outcome(event, outcome)
    }

    /// `None` if the stop rule abandoned it: the event stays undecided.
    fn step_event(&mut self, event: &MailboxEvent) -> Option<EventOutcome> {
        let (machine, state, now) = (self.machine, &self.state, self.now);
        self.effort.decide_event(event.event_id, |budget| step_within(machine, state, event, now, budget))
    }

    /// Offers the deferred events to the state, again from the start after each change of state.
    fn offer_deferred(&mut self) {
        let mut next = 0;
        while let Some(event) = self.deferred.get(next).copied() {
            if self.stays_deferred(event) {
                next += 1;
                continue;
            }
            if self.effort.has_ended() {
                return;
            }
            let Some(outcome) = self.step_event(event) else { return };
            match outcome {
                EventOutcome::Deferred => next += 1,
                decided @ (EventOutcome::Applied(_) | EventOutcome::Rejected { .. }) => {
                    self.deferred.remove(next);
                    if self.record_outcome(event, decided).is_break() {
                        next = 0;
                    }
                }
            }
        }
    }

    /// A deferred event stays deferred until a state handles it; states in between need not defer it again. A
    /// timer that has become stale is rejected at once.
    fn stays_deferred(&self, event: &MailboxEvent) -> bool {
        match event.origin {
            EventOrigin::Timer { .. } => false,
            EventOrigin::Posted => {
                !self.state.phase.is_ended()
                    && self.machine.alternatives_of(&self.state.state, &event.name).is_none()
            }
        }
    }

    fn record_outcome(&mut self, event: &MailboxEvent, outcome: EventOutcome) -> ControlFlow<()> {
        let flow = match &outcome {
            EventOutcome::Applied(applied) => {
                fold_transition(&mut self.state, &applied.transition);
                match (applied.transition.decision.entered, self.state.phase.is_ended()) {
                    (StateEntry::Entered, _) | (StateEntry::Stayed, true) => ControlFlow::Break(()),
                    (StateEntry::Stayed, false) => ControlFlow::Continue(()),
                }
            }
            EventOutcome::Rejected { .. } | EventOutcome::Deferred => ControlFlow::Continue(()),
        };
        self.outcomes.push((event.event_id, outcome));
        flow
    }

    /// Events deferred in this visit get the outcome `Deferred`; events deferred earlier get none.
    fn into_decisions(mut self) -> VisitDecisions {
        let fresh = self.deferred.iter().filter(|event| event.kept == MailboxState::Undecided);
        self.outcomes.extend(fresh.map(|event| (event.event_id, EventOutcome::Deferred)));
        VisitDecisions {
            outcomes: self.outcomes,
            state: self.state,
            unfinished: self.effort.unfinished_reason(),
        }
    }
}

//! Work limits of one mailbox visit, set by the shell; they change no outcome.
//!
//! The budget of a step (see [`millstream_expr::ExprBudget`]) decides rejections and is the same everywhere. The
//! shell has additional limits: to decide cheap events at once and expensive ones on another thread, to
//! schedule executions fairly, and to abandon an evaluation that exceeds its wall-clock limit. Each of them
//! ends a visit early; its decisions are kept, and the remaining events stay undecided for the next visit.

use millstream_expr::{BudgetEnd, ExprBudget, StopRule};
use millstream_model::id::EventId;

use crate::log::{EventOutcome, UnfinishedReason};

/// Limits that end a visit early.
#[derive(Debug, Clone, Copy)]
pub struct VisitLimits<'a> {
    /// After this much work the visit starts no further event.
    pub units: u64,
    /// Abandons the decision of an event. Its units count from the start of the visit.
    pub stop: StopRule<'a>,
}

impl VisitLimits<'_> {
    /// Never ends early.
    pub const NONE: VisitLimits<'static> = VisitLimits { units: u64::MAX, stop: StopRule::NEVER };
}

/// Work that a visit has spent so far.
#[derive(Debug)]
pub(crate) struct VisitEffort<'a> {
    limits: VisitLimits<'a>,
    spent: u64,
    abandoned: Option<EventId>,
    is_cut: bool,
}

impl<'a> VisitEffort<'a> {
    pub(crate) fn new(limits: VisitLimits<'a>) -> Self {
        Self { limits, spent: 0, abandoned: None, is_cut: false }
    }

    /// Decides one event within the budget of a step; `None` if the stop rule ended it.
    pub(crate) fn decide_event(
        &mut self,
        event_id: EventId,
        step: impl FnOnce(&ExprBudget<'_>) -> EventOutcome,
    ) -> Option<EventOutcome> {
        let stop = StopRule { units: self.limits.stop.units.saturating_sub(self.spent), ..self.limits.stop };
        let budget = ExprBudget::of_step(stop);
        let outcome = step(&budget);
        self.spent = self.spent.saturating_add(budget.spent());
        match budget.end() {
            Some(BudgetEnd::Stopped) => {
                self.abandoned = Some(event_id);
                None
            }
            Some(BudgetEnd::Work | BudgetEnd::Bytes) | None => Some(outcome),
        }
    }

    /// Whether the visit starts no further event. Called only when one is left.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.is_cut |= self.spent >= self.limits.units;
        self.is_cut || self.abandoned.is_some()
    }

    pub(crate) fn unfinished_reason(&self) -> Option<UnfinishedReason> {
        match (self.abandoned, self.is_cut) {
            (Some(event_id), _) => Some(UnfinishedReason::Abandoned(event_id)),
            (None, true) => Some(UnfinishedReason::Rest),
            (None, false) => None,
        }
    }
}

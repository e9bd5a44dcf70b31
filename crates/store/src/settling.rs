//! The actions of one transition while outcomes are recorded: which become ready, which are skipped, which
//! are undone (compensation, the saga pattern). Pure; shared by every backend, under the lock of the event.
//!
//! An action that is to be *compensated* has failed, but its failure is not reported yet: it is `waiting` and
//! *closing*. Actions of its transition that have not begun are skipped, running ones finish. Then the undo
//! actions of the successes are started, the last success first, each waiting for the one before. The closing
//! action waits until all of them have succeeded, and is then leased once more to report the failure. It is
//! in the engine's own queue from then on: reporting is the engine's work.

use std::collections::BTreeMap;

use millstream_model::id::{Epoch, Name};
use millstream_model::mutation::{self, Mutation};
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;

use crate::action_store::{AfterFailure, OutcomeDemand, SettleOutcome};

/// State of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransitionMember {
    pub ordinal: i32,
    pub needs: Vec<Name>,
    pub status: ActionStatus,
    pub epoch: Epoch,
    pub settled_at: Option<Timestamp>,
    /// It failed, and waits for the compensation of its transition.
    pub closing: bool,
    /// Of an undo action: the action that it undoes.
    pub undoes: Option<Name>,
}

impl TransitionMember {
    /// Neither an undo nor undone: what the transition asked for.
    fn is_declared(&self) -> bool {
        !self.closing && self.undoes.is_none()
    }
}

/// All actions of one transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransitionActions {
    pub members: BTreeMap<Name, TransitionMember>,
    /// Whether more attempts are wanted.
    pub wanted: OutcomeDemand,
}

/// The new state of an action after an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettledState {
    Succeeded,
    Failed,
    /// Given up, with its error.
    Cancelled,
    Skipped,
    /// Ready from then on; the attempt counts.
    Ready(Timestamp),
    /// The same, uncounted.
    Postponed(Timestamp),
    Awaiting(Option<Timestamp>),
    Closing,
}

impl SettledState {
    pub const fn status(self) -> ActionStatus {
        match self {
            Self::Succeeded => ActionStatus::Succeeded,
            Self::Failed => ActionStatus::Failed,
            Self::Cancelled => ActionStatus::Cancelled,
            Self::Skipped => ActionStatus::Skipped,
            Self::Ready(_) | Self::Postponed(_) => ActionStatus::Ready,
            Self::Awaiting(_) => ActionStatus::Awaiting,
            Self::Closing => ActionStatus::Waiting,
        }
    }
}

/// Consequences of outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettleConsequences {
    /// Ready now, in order.
    pub freed: Vec<Name>,
    pub skipped: Vec<Name>,
    /// Waiting now, with their dependencies.
    pub linked: BTreeMap<Name, Vec<Name>>,
}

impl TransitionActions {
    /// Whether the lease is the current one of an action that is under way.
    pub fn holds_lease(&self, action: &Name, epoch: Epoch) -> bool {
        self.members.get(action).is_some_and(|member| {
            matches!(member.status, ActionStatus::Leased | ActionStatus::Awaiting)
                && (member.epoch == epoch || mutation::is_active(Mutation::AnyToken))
        })
    }

    /// Records one outcome and returns the action's new state.
    pub fn record_outcome(&mut self, action: &Name, outcome: &SettleOutcome, now: Timestamp) -> SettledState {
        // Undo actions continue during further compensation, and so does reporting the failure.
        let goes_on = self.is_undo(action) || self.is_closing(action);
        let compensating = self.members.values().any(|member| member.closing) && !goes_on;
        // The engine's own actions at the end (outcome to the parent, closing of children) run after any end.
        let is_owed = action.is_reserved();
        let may_go_on = |goes_on: SettledState| match self.wanted {
            OutcomeDemand::Cancelled if !is_owed => SettledState::Cancelled,
            OutcomeDemand::Yes if compensating => SettledState::Skipped,
            OutcomeDemand::Yes | OutcomeDemand::Cancelled => goes_on,
        };
        let becomes = match outcome {
            SettleOutcome::Succeeded { .. } => SettledState::Succeeded,
            SettleOutcome::Retry { at, .. } => may_go_on(SettledState::Ready(*at)),
            SettleOutcome::Postponed { at, .. } => may_go_on(SettledState::Postponed(*at)),
            SettleOutcome::Awaiting { until } => match self.wanted {
                OutcomeDemand::Yes => SettledState::Awaiting(*until),
                OutcomeDemand::Cancelled => SettledState::Cancelled,
            },
            SettleOutcome::Failed { then: AfterFailure::Compensate, .. } => match self.wanted {
                OutcomeDemand::Yes => SettledState::Closing,
                OutcomeDemand::Cancelled => SettledState::Failed,
            },
            SettleOutcome::Failed { then: AfterFailure::Emit(_) | AfterFailure::Incident(_), .. } => {
                SettledState::Failed
            }
        };
        if let Some(member) = self.members.get_mut(action) {
            member.status = becomes.status();
            member.closing = match becomes {
                SettledState::Succeeded
                | SettledState::Failed
                | SettledState::Cancelled
                | SettledState::Skipped
                | SettledState::Awaiting(_) => false,
                SettledState::Ready(_) | SettledState::Postponed(_) => member.closing,
                SettledState::Closing => true,
            };
            member.settled_at = member.status.is_settled().then_some(now);
        }
        becomes
    }

    /// Propagates outcomes to dependents.
    pub fn propagate_outcomes(&mut self) -> SettleConsequences {
        let mut followed = SettleConsequences::default();
        self.skip_dependents(&mut followed);
        self.start_compensation(&mut followed);
        self.free_dependents(&mut followed);
        followed
    }

    pub fn is_settled(&self) -> bool {
        self.members.values().all(|member| member.status.is_settled())
    }

    fn skip_dependents(&mut self, followed: &mut SettleConsequences) {
        loop {
            let is_lost = |need: &Name| {
                self.members.get(need).is_some_and(|need| {
                    need.closing || matches!(need.status, ActionStatus::Failed | ActionStatus::Skipped)
                })
            };
            let lost: Vec<Name> = self
                .members
                .iter()
                .filter(|(_, member)| member.status == ActionStatus::Waiting && !member.closing)
                .filter(|(_, member)| member.needs.iter().any(is_lost))
                .map(|(name, _)| name.clone())
                .collect();
            if lost.is_empty() {
                return;
            }
            for name in lost {
                self.set_skipped(name, followed);
            }
        }
    }

    fn set_skipped(&mut self, name: Name, followed: &mut SettleConsequences) {
        if let Some(member) = self.members.get_mut(&name) {
            member.status = ActionStatus::Skipped;
        }
        followed.skipped.push(name);
    }

    /// Starts the undo actions once no other action of the transition is under way.
    fn start_compensation(&mut self, followed: &mut SettleConsequences) {
        let waits = |member: &TransitionMember| member.closing && member.status == ActionStatus::Waiting;
        if !self.members.values().any(waits) {
            return;
        }
        let not_begun = |member: &TransitionMember| match member.status {
            ActionStatus::Waiting | ActionStatus::Ready => true,
            ActionStatus::Leased
            | ActionStatus::Awaiting
            | ActionStatus::Standby
            | ActionStatus::Succeeded
            | ActionStatus::Failed
            | ActionStatus::Skipped
            | ActionStatus::Cancelled => false,
        };
        let idle: Vec<Name> = self
            .members
            .iter()
            .filter(|(_, member)| member.is_declared() && not_begun(member))
            .map(|(name, _)| name.clone())
            .collect();
        for name in idle {
            self.set_skipped(name, followed);
        }
        if self.is_under_way() {
            return;
        }
        let mut before: Option<Name> = None;
        for name in self.undo_actions() {
            let Some(member) = self.members.get_mut(&name) else { continue };
            member.status = ActionStatus::Waiting;
            member.settled_at = None;
            member.needs.extend(before.replace(name.clone()));
            followed.linked.insert(name, member.needs.clone());
        }
    }

    /// Whether a declared action has no outcome yet.
    fn is_under_way(&self) -> bool {
        self.members.values().any(|member| member.is_declared() && !member.status.is_settled())
    }

    /// Whether all undo actions have succeeded.
    fn is_undone(&self) -> bool {
        let undos = self.members.values().filter(|member| member.undoes.is_some());
        let is_over = |status| matches!(status, ActionStatus::Succeeded | ActionStatus::Standby);
        !self.is_under_way() && undos.into_iter().all(|undo| is_over(undo.status))
    }

    /// The undo actions of the successes, the last success first.
    fn undo_actions(&self) -> Vec<Name> {
        let mut undoings: Vec<_> = self
            .members
            .iter()
            .filter(|(_, member)| member.status == ActionStatus::Standby)
            .filter_map(|(name, member)| {
                let undone = self.members.get(member.undoes.as_ref()?)?;
                (undone.status == ActionStatus::Succeeded)
                    .then_some(((undone.settled_at, undone.ordinal), name.clone()))
            })
            .collect();
        undoings.sort();
        undoings.into_iter().rev().map(|(_, name)| name).collect()
    }

    fn is_undo(&self, action: &Name) -> bool {
        self.members.get(action).is_some_and(|member| member.undoes.is_some())
    }

    fn is_closing(&self, action: &Name) -> bool {
        self.members.get(action).is_some_and(|member| member.closing)
    }

    fn free_dependents(&mut self, followed: &mut SettleConsequences) {
        let has_succeeded =
            |need: &Name| self.members.get(need).is_some_and(|need| need.status == ActionStatus::Succeeded);
        let mut freed: Vec<(i32, Name)> = self
            .members
            .iter()
            .filter(|(_, member)| member.status == ActionStatus::Waiting)
            .filter(|(_, member)| match member.closing {
                true => self.is_undone(),
                false => member.needs.iter().all(has_succeeded),
            })
            .map(|(name, member)| (member.ordinal, name.clone()))
            .collect();
        freed.sort();
        for (_, name) in freed {
            if let Some(member) = self.members.get_mut(&name) {
                member.status = ActionStatus::Ready;
            }
            followed.freed.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millstream_model::raw::RawJson;

    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_secs(second))
    }

    fn member(ordinal: i32, status: ActionStatus, needs: &[&str]) -> TransitionMember {
        let needs = needs.iter().map(|need| name(need)).collect();
        TransitionMember {
            ordinal,
            needs,
            status,
            epoch: Epoch(1),
            settled_at: None,
            closing: false,
            undoes: None,
        }
    }

    fn undo(ordinal: i32, undone: &str) -> TransitionMember {
        TransitionMember { undoes: Some(name(undone)), ..member(ordinal, ActionStatus::Standby, &[undone]) }
    }

    fn graph<const N: usize>(members: [(&str, TransitionMember); N]) -> TransitionActions {
        let members = members.into_iter().map(|(text, member)| (name(text), member)).collect();
        TransitionActions { members, wanted: OutcomeDemand::Yes }
    }

    fn succeeded() -> SettleOutcome {
        SettleOutcome::Succeeded { result: RawJson::null(), emit: None }
    }

    fn compensate() -> SettleOutcome {
        SettleOutcome::Failed { error: RawJson::null(), then: AfterFailure::Compensate }
    }

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| name(text)).collect()
    }

    #[test]
    fn compensation_undoes_last_success_first() {
        use ActionStatus::Leased;
        let mut graph = graph([
            ("reserve", member(0, Leased, &[])),
            ("charge", member(1, Leased, &[])),
            ("ship", member(2, Leased, &["charge"])),
            ("release", undo(3, "reserve")),
            ("refund", undo(4, "charge")),
        ]);
        graph.record_outcome(&name("charge"), &succeeded(), at(1));
        graph.record_outcome(&name("reserve"), &succeeded(), at(2));
        assert_eq!(graph.propagate_outcomes(), SettleConsequences::default());
        assert_eq!(graph.record_outcome(&name("ship"), &compensate(), at(3)), SettledState::Closing);
        let followed = graph.propagate_outcomes();
        assert_eq!(followed.freed, names(&["release"]));
        assert_eq!(followed.linked[&name("refund")], names(&["charge", "release"]));
        assert!(!followed.linked.contains_key(&name("ship")), "what it needed stays as it was");
        assert!(!graph.is_settled());
        graph.record_outcome(&name("release"), &succeeded(), at(4));
        assert_eq!(graph.propagate_outcomes().freed, names(&["refund"]));
        graph.record_outcome(&name("refund"), &succeeded(), at(5));
        assert_eq!(graph.propagate_outcomes().freed, names(&["ship"]));
        assert_eq!(graph.members[&name("ship")].needs, names(&["charge"]));
    }

    #[test]
    fn success_during_compensation_is_undone_too() {
        use ActionStatus::{Failed, Leased, Succeeded};
        let mut graph = graph([
            ("a", member(0, Succeeded, &[])),
            ("b", member(1, Failed, &[])),
            ("c", member(2, Leased, &[])),
            ("undo-a", undo(3, "a")),
            ("undo-b", undo(4, "b")),
        ]);
        graph.record_outcome(&name("c"), &compensate(), at(1));
        assert_eq!(graph.propagate_outcomes().freed, names(&["undo-a"]));
        // A person retries `b` meanwhile.
        graph.members.get_mut(&name("b")).unwrap().status = Leased;
        graph.record_outcome(&name("undo-a"), &succeeded(), at(2));
        assert_eq!(graph.propagate_outcomes(), SettleConsequences::default(), "it is waited for");
        graph.record_outcome(&name("b"), &succeeded(), at(3));
        assert_eq!(graph.propagate_outcomes().freed, names(&["undo-b"]));
        graph.record_outcome(&name("undo-b"), &succeeded(), at(4));
        assert_eq!(graph.propagate_outcomes().freed, names(&["c"]));
    }

    #[test]
    fn compensation_skips_unbegun_awaits_running() {
        let mut graph = graph([
            ("a", member(0, ActionStatus::Leased, &[])),
            ("b", member(1, ActionStatus::Leased, &[])),
            ("c", member(2, ActionStatus::Ready, &[])),
            ("d", member(3, ActionStatus::Waiting, &["b"])),
            ("undo-b", undo(4, "b")),
        ]);
        graph.record_outcome(&name("a"), &compensate(), at(1));
        let followed = graph.propagate_outcomes();
        assert_eq!((followed.skipped, followed.freed), (names(&["c", "d"]), vec![]));
        graph.record_outcome(&name("b"), &succeeded(), at(2));
        assert_eq!(graph.propagate_outcomes().freed, names(&["undo-b"]));
    }

    #[test]
    fn failure_without_undo_is_reported_immediately() {
        let mut graph = graph([
            ("a", member(0, ActionStatus::Leased, &[])),
            ("b", member(1, ActionStatus::Skipped, &[])),
            ("undo-b", undo(2, "b")),
        ]);
        graph.record_outcome(&name("a"), &compensate(), at(1));
        assert_eq!(graph.propagate_outcomes().freed, names(&["a"]));
    }

    #[test]
    fn compensation_retries_undo_but_no_sibling() {
        let retry = SettleOutcome::Retry { error: RawJson::null(), at: at(9) };
        let mut graph = graph([
            ("a", TransitionMember { closing: true, ..member(0, ActionStatus::Waiting, &[]) }),
            ("b", member(1, ActionStatus::Leased, &[])),
            ("undo-c", TransitionMember { status: ActionStatus::Leased, ..undo(2, "c") }),
        ]);
        assert_eq!(graph.record_outcome(&name("b"), &retry, at(1)), SettledState::Skipped);
        assert_eq!(graph.record_outcome(&name("undo-c"), &retry, at(1)), SettledState::Ready(at(9)));
        let postponed = SettleOutcome::Postponed { at: at(9), error: None };
        assert_eq!(graph.record_outcome(&name("undo-c"), &postponed, at(1)), SettledState::Postponed(at(9)));
    }

    #[test]
    fn unreported_failure_is_reported_later() {
        let retry = SettleOutcome::Retry { error: RawJson::null(), at: at(9) };
        let leased = member(0, ActionStatus::Leased, &["undo-b"]);
        let mut graph = graph([
            ("a", TransitionMember { closing: true, ..leased }),
            ("undo-b", TransitionMember { status: ActionStatus::Succeeded, ..undo(1, "b") }),
        ]);
        assert_eq!(graph.record_outcome(&name("a"), &retry, at(1)), SettledState::Ready(at(9)));
        assert_eq!(graph.propagate_outcomes(), SettleConsequences::default());
        assert!(graph.members[&name("a")].closing && !graph.is_settled());
    }

    #[test]
    fn cancelled_execution_retries_no_action() {
        let retry = SettleOutcome::Retry { error: RawJson::null(), at: at(9) };
        let mut graph = graph([("a", member(0, ActionStatus::Leased, &[]))]);
        graph.wanted = OutcomeDemand::Cancelled;
        assert_eq!(graph.record_outcome(&name("a"), &retry, at(1)), SettledState::Cancelled);
        assert!(graph.is_settled());
    }

    #[test]
    fn cancelled_execution_awaits_and_undoes_nothing() {
        use ActionStatus::{Leased, Succeeded};
        let mut graph = graph([
            ("a", member(0, Leased, &[])),
            ("b", member(1, Leased, &[])),
            ("c", member(2, Succeeded, &[])),
            ("undo-c", undo(3, "c")),
        ]);
        graph.wanted = OutcomeDemand::Cancelled;
        assert_eq!(
            graph.record_outcome(&name("a"), &SettleOutcome::Awaiting { until: None }, at(1)),
            SettledState::Cancelled
        );
        assert_eq!(graph.record_outcome(&name("b"), &compensate(), at(1)), SettledState::Failed);
        assert_eq!(graph.propagate_outcomes(), SettleConsequences::default());
    }

    #[test]
    fn reserved_actions_retry_after_cancellation() {
        let retry = SettleOutcome::Retry { error: RawJson::null(), at: at(9) };
        let owed = Name::return_to_parent();
        let mut graph = graph([(owed.as_str(), member(0, ActionStatus::Leased, &[]))]);
        graph.wanted = OutcomeDemand::Cancelled;
        assert_eq!(graph.record_outcome(&owed, &retry, at(1)), SettledState::Ready(at(9)));
        assert!(!graph.is_settled());
    }
}

//! The actions of one transition while outcomes are recorded: which become ready, which are skipped, which
//! are undone (compensation, the saga pattern). Pure; shared by every backend, under the lock of the event.
//!
//! An action that is to be *compensated* has failed, but its failure is not reported yet: it is `waiting` and
//! *closing*. Actions of its transition that have not begun are skipped, running ones finish. Then the undo
//! actions of the successes are started, the last success first, each waiting for the one before. The closing
//! action waits until all of them have succeeded, and is then leased once more to report the failure. It is
//! in the engine's own queue from then on: reporting is the engine's work.

use std::collections::BTreeMap;

use millstream_core::id::{Epoch, Name};
use millstream_core::planted::{self, Bug};
use millstream_core::status::ActionStatus;
use millstream_core::time::Timestamp;

use crate::action_store::{AfterFailure, Settling, Wanted};

/// State of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
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

impl Member {
    /// Neither an undo nor undone: what the transition asked for.
    fn is_declared(&self) -> bool {
        !self.closing && self.undoes.is_none()
    }
}

/// All actions of one transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    pub members: BTreeMap<Name, Member>,
    /// Whether more attempts are wanted.
    pub wanted: Wanted,
}

/// The new state of an action after an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Becomes {
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

/// Consequences of outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Followed {
    /// Ready now, in order.
    pub freed: Vec<Name>,
    pub skipped: Vec<Name>,
    /// Waiting now, with their dependencies.
    pub linked: BTreeMap<Name, Vec<Name>>,
}

impl Graph {
    /// Whether the lease is the current one of an action that is under way.
    pub fn holds(&self, action: &Name, epoch: Epoch) -> bool {
        self.members.get(action).is_some_and(|member| {
            matches!(member.status, ActionStatus::Leased | ActionStatus::Awaiting)
                && (member.epoch == epoch || planted::is(Bug::AnyToken))
        })
    }

    /// Records one outcome and returns the action's new state.
    pub fn record(&mut self, action: &Name, outcome: &Settling, now: Timestamp) -> Becomes {
        // Undo actions continue during further compensation, and so does reporting the failure.
        let goes_on = self.is_undo(action) || self.is_closing(action);
        let compensating = self.members.values().any(|member| member.closing) && !goes_on;
        // The engine's own actions at the end (outcome to the parent, closing of children) run after any end.
        let is_owed = action.is_reserved();
        let may_go_on = |goes_on: Becomes| match self.wanted {
            Wanted::Cancelled if !is_owed => Becomes::Cancelled,
            Wanted::Yes if compensating => Becomes::Skipped,
            Wanted::Yes | Wanted::Cancelled => goes_on,
        };
        let becomes = match outcome {
            Settling::Succeeded { .. } => Becomes::Succeeded,
            Settling::Retry { at, .. } => may_go_on(Becomes::Ready(*at)),
            Settling::Postponed { at, .. } => may_go_on(Becomes::Postponed(*at)),
            Settling::Awaiting { until } => match self.wanted {
                Wanted::Yes => Becomes::Awaiting(*until),
                Wanted::Cancelled => Becomes::Cancelled,
            },
            Settling::Failed { then: AfterFailure::Compensate, .. } => match self.wanted {
                Wanted::Yes => Becomes::Closing,
                Wanted::Cancelled => Becomes::Failed,
            },
            Settling::Failed { then: AfterFailure::Emit(_) | AfterFailure::Incident(_), .. } => {
                Becomes::Failed
            }
        };
        if let Some(member) = self.members.get_mut(action) {
            (member.status, member.closing) = match becomes {
                Becomes::Succeeded => (ActionStatus::Succeeded, false),
                Becomes::Failed => (ActionStatus::Failed, false),
                Becomes::Cancelled => (ActionStatus::Cancelled, false),
                Becomes::Skipped => (ActionStatus::Skipped, false),
                Becomes::Ready(_) | Becomes::Postponed(_) => (ActionStatus::Ready, member.closing),
                Becomes::Awaiting(_) => (ActionStatus::Awaiting, false),
                Becomes::Closing => (ActionStatus::Waiting, true),
            };
            member.settled_at = member.status.is_settled().then_some(now);
        }
        becomes
    }

    /// Propagates outcomes to dependents.
    pub fn follow(&mut self) -> Followed {
        let mut followed = Followed::default();
        self.skip(&mut followed);
        self.compensate(&mut followed);
        self.free(&mut followed);
        followed
    }

    pub fn is_settled(&self) -> bool {
        self.members.values().all(|member| member.status.is_settled())
    }

    fn skip(&mut self, followed: &mut Followed) {
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

    fn set_skipped(&mut self, name: Name, followed: &mut Followed) {
        if let Some(member) = self.members.get_mut(&name) {
            member.status = ActionStatus::Skipped;
        }
        followed.skipped.push(name);
    }

    /// Starts the undo actions once no other action of the transition is under way.
    fn compensate(&mut self, followed: &mut Followed) {
        let waits = |member: &Member| member.closing && member.status == ActionStatus::Waiting;
        if !self.members.values().any(waits) {
            return;
        }
        let not_begun = |member: &Member| match member.status {
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
        for name in self.undoings() {
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
    fn undoings(&self) -> Vec<Name> {
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

    fn free(&mut self, followed: &mut Followed) {
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

    use millstream_core::raw::RawJson;

    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_secs(second))
    }

    fn member(ordinal: i32, status: ActionStatus, needs: &[&str]) -> Member {
        let needs = needs.iter().map(|need| name(need)).collect();
        Member { ordinal, needs, status, epoch: Epoch(1), settled_at: None, closing: false, undoes: None }
    }

    fn undo(ordinal: i32, undone: &str) -> Member {
        Member { undoes: Some(name(undone)), ..member(ordinal, ActionStatus::Standby, &[undone]) }
    }

    fn graph<const N: usize>(members: [(&str, Member); N]) -> Graph {
        let members = members.into_iter().map(|(text, member)| (name(text), member)).collect();
        Graph { members, wanted: Wanted::Yes }
    }

    fn succeeded() -> Settling {
        Settling::Succeeded { result: RawJson::null(), emit: None }
    }

    fn compensate() -> Settling {
        Settling::Failed { error: RawJson::null(), then: AfterFailure::Compensate }
    }

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| name(text)).collect()
    }

    #[test]
    fn what_succeeded_last_is_undone_first_and_the_failure_is_told_at_the_end() {
        use ActionStatus::Leased;
        let mut graph = graph([
            ("reserve", member(0, Leased, &[])),
            ("charge", member(1, Leased, &[])),
            ("ship", member(2, Leased, &["charge"])),
            ("release", undo(3, "reserve")),
            ("refund", undo(4, "charge")),
        ]);
        graph.record(&name("charge"), &succeeded(), at(1));
        graph.record(&name("reserve"), &succeeded(), at(2));
        assert_eq!(graph.follow(), Followed::default());
        assert_eq!(graph.record(&name("ship"), &compensate(), at(3)), Becomes::Closing);
        let followed = graph.follow();
        assert_eq!(followed.freed, names(&["release"]));
        assert_eq!(followed.linked[&name("refund")], names(&["charge", "release"]));
        assert!(!followed.linked.contains_key(&name("ship")), "what it needed stays as it was");
        assert!(!graph.is_settled());
        graph.record(&name("release"), &succeeded(), at(4));
        assert_eq!(graph.follow().freed, names(&["refund"]));
        graph.record(&name("refund"), &succeeded(), at(5));
        assert_eq!(graph.follow().freed, names(&["ship"]));
        assert_eq!(graph.members[&name("ship")].needs, names(&["charge"]));
    }

    #[test]
    fn what_is_tried_again_and_succeeds_while_everything_is_undone_is_undone_too() {
        use ActionStatus::{Failed, Leased, Succeeded};
        let mut graph = graph([
            ("a", member(0, Succeeded, &[])),
            ("b", member(1, Failed, &[])),
            ("c", member(2, Leased, &[])),
            ("undo-a", undo(3, "a")),
            ("undo-b", undo(4, "b")),
        ]);
        graph.record(&name("c"), &compensate(), at(1));
        assert_eq!(graph.follow().freed, names(&["undo-a"]));
        // A person retries `b` meanwhile.
        graph.members.get_mut(&name("b")).unwrap().status = Leased;
        graph.record(&name("undo-a"), &succeeded(), at(2));
        assert_eq!(graph.follow(), Followed::default(), "it is waited for");
        graph.record(&name("b"), &succeeded(), at(3));
        assert_eq!(graph.follow().freed, names(&["undo-b"]));
        graph.record(&name("undo-b"), &succeeded(), at(4));
        assert_eq!(graph.follow().freed, names(&["c"]));
    }

    #[test]
    fn what_has_not_begun_is_skipped_and_what_has_is_waited_for() {
        let mut graph = graph([
            ("a", member(0, ActionStatus::Leased, &[])),
            ("b", member(1, ActionStatus::Leased, &[])),
            ("c", member(2, ActionStatus::Ready, &[])),
            ("d", member(3, ActionStatus::Waiting, &["b"])),
            ("undo-b", undo(4, "b")),
        ]);
        graph.record(&name("a"), &compensate(), at(1));
        let followed = graph.follow();
        assert_eq!((followed.skipped, followed.freed), (names(&["c", "d"]), vec![]));
        graph.record(&name("b"), &succeeded(), at(2));
        assert_eq!(graph.follow().freed, names(&["undo-b"]));
    }

    #[test]
    fn without_anything_to_undo_the_failure_is_told_at_once() {
        let mut graph = graph([
            ("a", member(0, ActionStatus::Leased, &[])),
            ("b", member(1, ActionStatus::Skipped, &[])),
            ("undo-b", undo(2, "b")),
        ]);
        graph.record(&name("a"), &compensate(), at(1));
        assert_eq!(graph.follow().freed, names(&["a"]));
    }

    #[test]
    fn a_sibling_is_not_tried_again_while_everything_is_undone_but_an_undo_is() {
        let retry = Settling::Retry { error: RawJson::null(), at: at(9) };
        let mut graph = graph([
            ("a", Member { closing: true, ..member(0, ActionStatus::Waiting, &[]) }),
            ("b", member(1, ActionStatus::Leased, &[])),
            ("undo-c", Member { status: ActionStatus::Leased, ..undo(2, "c") }),
        ]);
        assert_eq!(graph.record(&name("b"), &retry, at(1)), Becomes::Skipped);
        assert_eq!(graph.record(&name("undo-c"), &retry, at(1)), Becomes::Ready(at(9)));
        let postponed = Settling::Postponed { at: at(9), error: None };
        assert_eq!(graph.record(&name("undo-c"), &postponed, at(1)), Becomes::Postponed(at(9)));
    }

    #[test]
    fn a_failure_that_could_not_be_told_is_told_later() {
        let retry = Settling::Retry { error: RawJson::null(), at: at(9) };
        let leased = member(0, ActionStatus::Leased, &["undo-b"]);
        let mut graph = graph([
            ("a", Member { closing: true, ..leased }),
            ("undo-b", Member { status: ActionStatus::Succeeded, ..undo(1, "b") }),
        ]);
        assert_eq!(graph.record(&name("a"), &retry, at(1)), Becomes::Ready(at(9)));
        assert_eq!(graph.follow(), Followed::default());
        assert!(graph.members[&name("a")].closing && !graph.is_settled());
    }

    #[test]
    fn in_a_cancelled_execution_nothing_is_tried_again() {
        let retry = Settling::Retry { error: RawJson::null(), at: at(9) };
        let mut graph = graph([("a", member(0, ActionStatus::Leased, &[]))]);
        graph.wanted = Wanted::Cancelled;
        assert_eq!(graph.record(&name("a"), &retry, at(1)), Becomes::Cancelled);
        assert!(graph.is_settled());
    }

    #[test]
    fn in_a_cancelled_execution_nothing_is_awaited_and_nothing_is_undone() {
        use ActionStatus::{Leased, Succeeded};
        let mut graph = graph([
            ("a", member(0, Leased, &[])),
            ("b", member(1, Leased, &[])),
            ("c", member(2, Succeeded, &[])),
            ("undo-c", undo(3, "c")),
        ]);
        graph.wanted = Wanted::Cancelled;
        assert_eq!(graph.record(&name("a"), &Settling::Awaiting { until: None }, at(1)), Becomes::Cancelled);
        assert_eq!(graph.record(&name("b"), &compensate(), at(1)), Becomes::Failed);
        assert_eq!(graph.follow(), Followed::default());
    }

    #[test]
    fn what_the_engine_owes_is_tried_again_in_a_cancelled_execution_too() {
        let retry = Settling::Retry { error: RawJson::null(), at: at(9) };
        let owed = Name::return_to_parent();
        let mut graph = graph([(owed.as_str(), member(0, ActionStatus::Leased, &[]))]);
        graph.wanted = Wanted::Cancelled;
        assert_eq!(graph.record(&owed, &retry, at(1)), Becomes::Ready(at(9)));
        assert!(!graph.is_settled());
    }
}

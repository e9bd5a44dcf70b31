//! Which actions of a failed event a retry reopens. Pure; shared by every backend.
//!
//! A failure that an `on_failure` event has handled is over: the execution has continued from it, and
//! performing the action again would be an unrequested second effect. Actions skipped because of such a
//! failure stay skipped as well.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::id::Name;
use millstream_model::status::ActionStatus;

use crate::action_store::FailureHandling;

/// State of an action of the event.
#[derive(Debug, Clone)]
pub struct ReopenCandidate {
    pub needs: Vec<Name>,
    pub status: ActionStatus,
    pub handling: FailureHandling,
}

/// New states of the reopened actions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReopenedActions {
    /// Failed and unhandled.
    pub ready: BTreeSet<Name>,
    /// Skipped only because of these, directly or through others.
    pub waiting: BTreeSet<Name>,
}

impl ReopenedActions {
    fn is_reopened(&self, name: &Name) -> bool {
        self.ready.contains(name) || self.waiting.contains(name)
    }
}

/// `actions` are all actions of one transition. An action that was skipped without a failed dependency was
/// skipped because the transition is undone, and stays so.
pub fn choose_reopened(actions: &BTreeMap<Name, ReopenCandidate>) -> ReopenedActions {
    let mut reopened = ReopenedActions::default();
    for (name, action) in actions {
        match (action.status, action.handling) {
            (ActionStatus::Failed, FailureHandling::Unhandled) => {
                reopened.ready.insert(name.clone());
            }
            (
                ActionStatus::Failed
                | ActionStatus::Waiting
                | ActionStatus::Ready
                | ActionStatus::Leased
                | ActionStatus::Awaiting
                | ActionStatus::Standby
                | ActionStatus::Succeeded
                | ActionStatus::Skipped
                | ActionStatus::Cancelled,
                FailureHandling::Handled | FailureHandling::Unhandled,
            ) => {}
        }
    }
    loop {
        let freed: Vec<Name> = actions
            .iter()
            .filter(|(name, action)| {
                action.status == ActionStatus::Skipped
                    && !reopened.waiting.contains(*name)
                    && action.needs.iter().any(|need| reopened.is_reopened(need))
                    && !action.needs.iter().any(|need| still_lost(actions, &reopened, need))
            })
            .map(|(name, _)| name.clone())
            .collect();
        if freed.is_empty() {
            return reopened;
        }
        reopened.waiting.extend(freed);
    }
}

fn still_lost(actions: &BTreeMap<Name, ReopenCandidate>, reopened: &ReopenedActions, need: &Name) -> bool {
    match actions.get(need).map(|action| action.status) {
        Some(ActionStatus::Failed) => !reopened.ready.contains(need),
        Some(ActionStatus::Skipped) => !reopened.waiting.contains(need),
        Some(ActionStatus::Cancelled) => true,
        Some(
            ActionStatus::Waiting
            | ActionStatus::Ready
            | ActionStatus::Leased
            | ActionStatus::Awaiting
            | ActionStatus::Standby
            | ActionStatus::Succeeded,
        )
        | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn skips_of_handled_failures_stay_skipped() {
        let row = |status, handling, needs: &[&str]| ReopenCandidate {
            needs: needs.iter().map(|need| name(need)).collect(),
            status,
            handling,
        };
        let skipped = |needs: &[&str]| row(ActionStatus::Skipped, FailureHandling::Unhandled, needs);
        let actions = BTreeMap::from([
            (name("told"), row(ActionStatus::Failed, FailureHandling::Handled, &[])),
            (name("stuck"), row(ActionStatus::Failed, FailureHandling::Unhandled, &[])),
            (name("done"), row(ActionStatus::Succeeded, FailureHandling::Unhandled, &[])),
            (name("a-after-told"), skipped(&["told"])),
            (name("b-after-stuck"), skipped(&["stuck", "done"])),
            (name("a-after-b"), skipped(&["b-after-stuck"])),
            (name("after-both"), skipped(&["told", "stuck"])),
            (name("undone-before-it-began"), skipped(&[])),
            (name("undone-while-it-waited"), skipped(&["done"])),
            (name("after-after-both"), skipped(&["after-both", "stuck"])),
        ]);
        assert_eq!(
            choose_reopened(&actions),
            ReopenedActions {
                ready: [name("stuck")].into(),
                waiting: [name("b-after-stuck"), name("a-after-b")].into()
            }
        );
    }
}

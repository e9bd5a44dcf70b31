//! The actions of one transition while outcomes are being recorded: who may go on, who is skipped.
//!
//! Pure. Nothing in here knows about SQL.

use std::collections::BTreeMap;

use millstream_core::id::{AcceptNo, Epoch, Name};
use millstream_core::status::{ActionStatus, EventStatus, Phase};

/// All actions of one transition, with the event that caused it.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Of the event.
    pub(crate) accept_no: AcceptNo,
    pub(crate) event: EventStatus,
    /// Of its execution.
    pub(crate) phase: Phase,
    pub(crate) nodes: BTreeMap<Name, Node>,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) ordinal: i32,
    pub(crate) needs: Vec<Name>,
    pub(crate) status: ActionStatus,
    pub(crate) epoch: Epoch,
}

/// What follows for actions that were waiting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) skipped: Vec<Name>,
    /// In the order of the `do` list.
    pub(crate) freed: Vec<Name>,
}

impl Graph {
    /// Whether this lease is held.
    pub(crate) fn holds(&self, action: &Name, epoch: Epoch) -> bool {
        self.nodes.get(action).is_some_and(|node| node.status == ActionStatus::Leased && node.epoch == epoch)
    }

    pub(crate) fn set(&mut self, action: &Name, status: ActionStatus) {
        if let Some(node) = self.nodes.get_mut(action) {
            node.status = status;
        }
    }

    /// Skip what needs something that failed, and what needs that in turn; free what has everything.
    pub(crate) fn resolve(&mut self) -> Resolved {
        let mut skipped = Vec::new();
        loop {
            let lost = self.waiting_where(|needs| needs.iter().any(|need| is_lost(*need)));
            if lost.is_empty() {
                break;
            }
            for action in lost {
                self.set(&action, ActionStatus::Skipped);
                skipped.push(action);
            }
        }
        let mut freed = self.waiting_where(|needs| needs.iter().all(|need| *need == ActionStatus::Succeeded));
        freed.sort_by_key(|action| self.nodes.get(action).map(|node| node.ordinal));
        for action in &freed {
            self.set(action, ActionStatus::Ready);
        }
        Resolved { skipped, freed }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.nodes.values().all(|node| node.status.is_settled())
    }

    fn waiting_where(&self, holds: impl Fn(&[ActionStatus]) -> bool) -> Vec<Name> {
        self.nodes
            .iter()
            .filter(|(_, node)| node.status == ActionStatus::Waiting)
            .filter(|(_, node)| {
                let needs: Vec<_> = node
                    .needs
                    .iter()
                    .filter_map(|need| self.nodes.get(need))
                    .map(|need| need.status)
                    .collect();
                holds(&needs)
            })
            .map(|(name, _)| name.clone())
            .collect()
    }
}

const fn is_lost(status: ActionStatus) -> bool {
    match status {
        ActionStatus::Failed | ActionStatus::Skipped => true,
        ActionStatus::Waiting
        | ActionStatus::Ready
        | ActionStatus::Leased
        | ActionStatus::Succeeded
        | ActionStatus::Cancelled => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// a → b → c, a → d, in an order of the list that is not the order of the names.
    fn graph(a: ActionStatus) -> Graph {
        let node = |ordinal, needs: &[&str], status| Node {
            ordinal,
            needs: needs.iter().map(|need| name(need)).collect(),
            status,
            epoch: Epoch::FIRST,
        };
        let waiting = ActionStatus::Waiting;
        Graph {
            accept_no: AcceptNo(1),
            event: EventStatus::Processing,
            phase: Phase::Active,
            nodes: BTreeMap::from([
                (name("a"), node(0, &[], a)),
                (name("b"), node(3, &["a"], waiting)),
                (name("c"), node(2, &["b"], waiting)),
                (name("d"), node(1, &["a"], waiting)),
            ]),
        }
    }

    #[test]
    fn a_success_frees_direct_dependents_in_the_order_of_the_list() {
        let mut graph = graph(ActionStatus::Succeeded);
        let resolved = graph.resolve();
        assert_eq!(resolved, Resolved { skipped: vec![], freed: vec![name("d"), name("b")] });
        assert!(!graph.is_settled());
    }

    #[test]
    fn a_failure_skips_dependents_of_dependents() {
        let mut graph = graph(ActionStatus::Failed);
        let resolved = graph.resolve();
        assert_eq!(resolved.skipped.len(), 3);
        assert_eq!(resolved.freed, vec![]);
        assert!(graph.is_settled());
    }

    #[test]
    fn an_open_action_changes_nothing() {
        let mut graph = graph(ActionStatus::Leased);
        assert_eq!(graph.resolve(), Resolved { skipped: vec![], freed: vec![] });
        assert!(graph.holds(&name("a"), Epoch::FIRST));
        assert!(!graph.holds(&name("a"), Epoch(2)));
        assert!(!graph.holds(&name("b"), Epoch::FIRST));
    }
}

//! Leases within a commit: which of the new actions the committing worker leases, and the verdicts that carry
//! them.

use std::collections::BTreeMap;

use millstream_model::id::{AcceptNo, Epoch, Name};
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{Lease, LeaseOrigin, LeasedAction};
use millstream_store::execution_store::{CommitVerdict, ExecutionCommit, LeaseGrant, NewAction};

use crate::action_rows;
use crate::new_actions::{CommitLease, PlannedRow, RowRelation, mark_relations};

/// Leases the first ready actions of its queues to the committer, up to its slots.
pub(crate) fn take_ready_slots<'a>(
    winners: impl Iterator<Item = &'a ExecutionCommit>,
    grant: &LeaseGrant,
) -> Vec<PlannedRow<'a>> {
    let mut slots = grant.slots;
    let mut plan = |action: &'a NewAction| {
        let taken = match action.status {
            ActionStatus::Ready if slots > 0 && grant.serves(&action.terms.queue) => {
                slots -= 1;
                CommitLease::ByCommitter
            }
            ActionStatus::Ready
            | ActionStatus::Waiting
            | ActionStatus::Leased
            | ActionStatus::Awaiting
            | ActionStatus::Standby
            | ActionStatus::Succeeded
            | ActionStatus::Failed
            | ActionStatus::Skipped
            | ActionStatus::Cancelled => CommitLease::No,
        };
        PlannedRow { action, taken, company: RowRelation::None }
    };
    let mut rows: Vec<_> = Vec::new();
    for commit in winners {
        let first = rows.len();
        rows.extend(commit.actions.iter().map(&mut plan));
        mark_relations(&mut rows[first..]);
    }
    rows
}

/// The verdict for each committed item: `rows` are the actions of all of them, in order, leased at `moment`.
pub(crate) fn commit_verdicts<'a>(
    winners: impl Iterator<Item = &'a ExecutionCommit>,
    rows: &[PlannedRow<'_>],
    grant: &LeaseGrant,
    moment: Timestamp,
    emitted: Vec<AcceptNo>,
) -> Vec<CommitVerdict> {
    let (mut rows, mut numbers) = (rows.iter(), emitted.into_iter());
    let told = |commit: &'a ExecutionCommit| {
        let (mut leased, mut unleased) = (Vec::new(), 0);
        for row in rows.by_ref().take(commit.actions.len()) {
            match row.taken {
                CommitLease::ByCommitter => leased.push(leased_by_commit(commit, row.action, grant, moment)),
                CommitLease::No => unleased += usize::from(row.action.status == ActionStatus::Ready),
            }
        }
        let emitted = numbers.by_ref().take(commit.emitted.len()).collect();
        CommitVerdict::Done { leased, unleased, emitted }
    };
    winners.map(told).collect()
}

fn leased_by_commit(
    commit: &ExecutionCommit,
    action: &NewAction,
    grant: &LeaseGrant,
    moment: Timestamp,
) -> LeasedAction {
    LeasedAction {
        lease: Lease { key: action.key.clone(), epoch: Epoch::FIRST },
        event_id: action.event_id,
        definition: commit.definition.clone(),
        attempt: 1,
        input: action.input.clone(),
        scope: action.scope.clone(),
        results: inline_results(commit, action),
        traceparent: action.traceparent.clone(),
        lease_until: action_rows::lease_until(&action.terms, grant.ttl, moment),
        revision: 0,
        heartbeat: action.terms.heartbeat,
        progress: None,
        ready_at: moment,
        closing: None,
        begun: LeaseOrigin::No,
    }
}

/// The dependencies of a ready action were settled in the same commit. Independent actions are skipped: there
/// may be thousands.
fn inline_results(commit: &ExecutionCommit, action: &NewAction) -> BTreeMap<Name, RawJson> {
    let candidates = if action.needs.is_empty() { &[] } else { &commit.actions[..] };
    candidates
        .iter()
        .filter(|other| other.key.seq == action.key.seq && action.needs.contains(&other.key.action))
        .filter_map(|other| Some((other.key.action.clone(), other.result.clone()?)))
        .collect()
}

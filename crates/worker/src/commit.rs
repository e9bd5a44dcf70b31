//! Decides a group of executions and writes the decisions in one transaction (group commit).
//!
//! Ready actions are leased along with the commit as far as this worker has free slots, which are reserved
//! before the call. When a commit fails half-way its outcome is in doubt: the worker assumes nothing, drops
//! the decoded state, and the next visit reads the store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_model::crash::CrashPoint;
use millstream_model::id::{AcceptNo, TenantId};
use millstream_model::status::{ActionStatus, ExecutionPhase};
use millstream_rpc::evaluation_pool::PoolClosed;
use millstream_store::StoreError;
use millstream_store::execution_store::{
    CommitVerdict, EventVerdict, ExecutionCommit, OpenActions, PageRemainder,
};
use tokio::time::Instant;

use crate::bisect::BatchBisect;
use crate::commit_builder::LogLine;
use crate::context::WorkerContext;
use crate::decide::{DecidedVisit, VisitMember};
use crate::inbox::{RetryReason, VisitOutcome};
use crate::load::{CommitSharing, LoadedVisit};
use crate::perform::LeasedWork;
use crate::perform::tenant_slots::TenantSlotReservation;
use crate::post_commit::PostCommit;
use crate::ready_nodes::ReadyNodes;
use crate::{crash_point, decide, graph_log, metrics, poison};

/// Upper bound on expensive visits per commit; the others come back soon, queued behind those that waited
/// meanwhile.
const DEAR_PER_COMMIT: usize = 4;
/// Longest time spent deciding visits in sequence before yielding to the other tasks of the thread.
const LONGEST_WITHOUT_YIELD: Duration = Duration::from_millis(2);
/// Retries, without a pause, of a transaction that loses against concurrent ones.
const CONTENTIONS: u32 = 8;

/// Batches executions for commit: capped by bytes, and suspects alone, after all others.
pub(crate) fn group_for_commit(found: Vec<LoadedVisit>, max_bytes: usize) -> Vec<Vec<LoadedVisit>> {
    let (mut groups, mut alone, mut group, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0usize);
    for mut found in found {
        poison::cut_to_suspect(&mut found);
        if found.company == CommitSharing::Alone {
            alone.push(vec![found]);
            continue;
        }
        let size = found.state.context_bytes()
            + found.loaded.mailbox.iter().map(|event| event.payload.len() + 512).sum::<usize>();
        if bytes + size > max_bytes && !group.is_empty() {
            groups.push(std::mem::take(&mut group));
            bytes = 0;
        }
        bytes += size;
        group.push(found);
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups.append(&mut alone);
    groups
}

/// Decides and commits; returns the executions with a conflict.
pub(crate) async fn decide_and_commit(
    worker: &WorkerContext,
    group: Vec<LoadedVisit>,
    ends: &mut [Option<VisitOutcome>],
    aftermath: &mut PostCommit,
) -> Vec<usize> {
    record_queueing_time(worker, &group);
    let (mut decided, mut dear) = (Vec::new(), Vec::new());
    let mut resumed = Instant::now();
    for found in group {
        if resumed.elapsed() >= LONGEST_WITHOUT_YIELD {
            tokio::task::yield_now().await;
            resumed = Instant::now();
        }
        let at = found.visit_index();
        match decide::decide_inline(worker, found, aftermath) {
            DecidedVisit::Commit(member, commit) => decided.push((*member, *commit)),
            DecidedVisit::Nothing => ends[at] = Some(VisitOutcome::Answered),
            DecidedVisit::Dear(found) => dear.push(*found),
            DecidedVisit::Abandoned { why } => {
                ends[at] = Some(VisitOutcome::Kept(RetryReason::Failed { why }))
            }
        }
    }
    let mut conflicts = write_decisions(worker, decided, ends, aftermath).await;
    // Expensive visits come last, each in a transaction of its own.
    for (n, found) in dear.into_iter().enumerate() {
        let at = found.visit_index();
        if n >= DEAR_PER_COMMIT {
            decide::return_state_to_cache(worker, found);
            ends[at] = Some(VisitOutcome::Kept(RetryReason::Busy));
            continue;
        }
        match decide::decide_in_pool(worker, found, aftermath).await {
            Ok(DecidedVisit::Commit(member, commit)) => {
                let lost = write_decisions(worker, vec![(*member, *commit)], ends, aftermath).await;
                conflicts.extend(lost);
            }
            Ok(DecidedVisit::Nothing) => ends[at] = Some(VisitOutcome::Answered),
            Ok(DecidedVisit::Dear(found)) => {
                decide::return_state_to_cache(worker, *found);
                ends[at] = Some(VisitOutcome::Kept(RetryReason::Busy));
            }
            Ok(DecidedVisit::Abandoned { why }) => {
                ends[at] = Some(VisitOutcome::Kept(RetryReason::Failed { why }))
            }
            Err(PoolClosed) => ends[at] = Some(VisitOutcome::Kept(RetryReason::Unavailable)),
        }
    }
    conflicts
}

/// Writes the decisions; returns the executions with a conflict.
async fn write_decisions(
    worker: &WorkerContext,
    decided: Vec<(VisitMember, ExecutionCommit)>,
    ends: &mut [Option<VisitOutcome>],
    aftermath: &mut PostCommit,
) -> Vec<usize> {
    let (mut members, commits): (Vec<VisitMember>, Vec<ExecutionCommit>) = decided.into_iter().unzip();
    let mut conflicts = Vec::new();
    let mut parts = BatchBisect::whole_batch(commits.len());
    let mut commits: Vec<Option<ExecutionCommit>> = commits.into_iter().map(Some).collect();
    while let Some(range) = parts.next_range() {
        let batch: Vec<ExecutionCommit> =
            commits[range.clone()].iter_mut().filter_map(Option::take).collect();
        match write_commits(worker, &batch, aftermath).await {
            Ok(verdicts) => {
                for ((member, commit), verdict) in members[range].iter_mut().zip(batch).zip(verdicts) {
                    match verdict {
                        CommitVerdict::Done { leased: _, unleased, emitted: _ } => {
                            ends[member.at] = Some(VisitOutcome::Answered);
                            let lines = std::mem::take(&mut member.lines);
                            let (position, more) = (member.position, member.more);
                            apply_committed(worker, commit, position, more, lines, unleased, aftermath);
                        }
                        CommitVerdict::Conflict => {
                            ::metrics::counter!(metrics::CONFLICTS).increment(1);
                            conflicts.push(member.at);
                        }
                        CommitVerdict::Missing => ends[member.at] = Some(VisitOutcome::Answered),
                    }
                }
            }
            Err(StoreError::Corrupt(_)) if range.len() > 1 => {
                for (slot, commit) in commits[range.clone()].iter_mut().zip(batch) {
                    *slot = Some(commit);
                }
                parts.split_range(range);
            }
            Err(StoreError::Corrupt(why)) => {
                for member in &members[range] {
                    ends[member.at] = Some(VisitOutcome::Kept(RetryReason::Failed { why: why.clone() }));
                }
            }
            Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => {
                worker.store_outage.record_failure(&error);
                for member in &members[range] {
                    ends[member.at] = Some(VisitOutcome::Kept(RetryReason::Unavailable));
                }
            }
        }
    }
    conflicts
}

/// Records the queueing time of the doorbells answered here.
fn record_queueing_time(worker: &WorkerContext, group: &[LoadedVisit]) {
    let now = worker.now();
    let mut queue = worker.lock_queueing_times();
    for found in group {
        if let Some(head) = found.loaded.mailbox.first() {
            queue.record_decided(&found.loaded.execution.tenant, now.since(head.accepted_at));
        }
    }
}

/// One transaction, retried on contention.
async fn write_commits(
    worker: &WorkerContext,
    batch: &[ExecutionCommit],
    aftermath: &mut PostCommit,
) -> Result<Vec<CommitVerdict>, StoreError> {
    let mut barred = worker.barred_tenants();
    let mut wanted: BTreeMap<&TenantId, usize> = BTreeMap::new();
    for commit in batch.iter().filter(|commit| !barred.contains(&commit.execution.tenant)) {
        let ready = commit.actions.iter().filter(|action| action.status == ActionStatus::Ready);
        let ready = ready.filter(|action| worker.can_perform(&action.terms.queue)).count();
        *wanted.entry(&commit.execution.tenant).or_default() += ready;
    }
    wanted.retain(|_, ready| *ready > 0);
    // Dropped once the leased actions hold their slots.
    let aside = worker.reserve_tenant_slots(wanted, &mut barred);
    let ready = aside.iter().map(TenantSlotReservation::len).sum();
    let own = match barred.is_empty() {
        true => worker.lease_grant(0),
        false => worker.lease_grant_except(&barred, batch.iter().map(|commit| &commit.execution.tenant)),
    };
    let events: usize = batch.iter().map(|commit| commit.decided.len()).sum();
    #[expect(clippy::cast_precision_loss, reason = "a batch size")]
    ::metrics::histogram!(metrics::BATCH_EVENTS).record(events as f64);
    let mut reserved = worker.slots.reserve_free(ready);
    let mut nodes = ReadyNodes::of_commits(batch);
    if reserved.len() == ready {
        nodes.reserve_slots(worker);
    }
    let mut contentions = 0;
    crash_point::crash_at(worker.options.crash, CrashPoint::WorkerBeforeCommit);
    loop {
        let asked = Instant::now();
        let grant = nodes.extend_grant(own.with_slots(reserved.len()));
        let executions = &worker.deps.stores.executions;
        match executions.commit_executions(&worker.options.worker, batch, &grant, worker.now()).await {
            Ok(mut verdicts) => {
                ::metrics::histogram!(metrics::COMMIT_SECONDS).record(asked.elapsed().as_secs_f64());
                crash_point::crash_at(worker.options.crash, CrashPoint::WorkerAfterCommit);
                worker.store_outage.record_success();
                let is_news = nodes.mark_rest_behind(worker);
                for (verdict, commit) in verdicts.iter_mut().zip(batch) {
                    if let CommitVerdict::Done { leased, unleased, .. } = verdict {
                        let left = nodes.count_not_leased(commit);
                        *unleased = unleased.saturating_sub(left);
                        if left > 0 && is_news {
                            aftermath.ring_actions(commit.execution.clone());
                        }
                        let (of_nodes, leased) = nodes.split_leased(std::mem::take(leased));
                        aftermath.start_actions(worker, leased, &mut reserved, asked);
                        for (action, slot) in of_nodes {
                            worker.performers.hand_over(LeasedWork::new(worker, action, slot, asked));
                        }
                    }
                }
                return Ok(verdicts);
            }
            Err(StoreError::Contention(_)) if contentions < CONTENTIONS => {
                contentions += 1;
                tokio::time::sleep(worker.jittered(Duration::from_millis(1 << contentions))).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Effects of a durable commit.
fn apply_committed(
    worker: &WorkerContext,
    commit: ExecutionCommit,
    position: AcceptNo,
    more: PageRemainder,
    lines: Vec<LogLine>,
    unleased: usize,
    aftermath: &mut PostCommit,
) {
    for decided in &commit.decided {
        aftermath.count_verdict(match &decided.verdict {
            EventVerdict::Applied { .. } => "applied",
            EventVerdict::Rejected { .. } => "rejected",
            EventVerdict::Deferred => "deferred",
        });
        aftermath.announce_transition(&commit.execution, commit.state.seq, decided.event_id);
    }
    for timer in &commit.timers {
        worker.timers.set_instant(worker.instant_of(timer.fire_at));
    }
    let correlates = commit.transitions.iter().any(|transition| transition.decision.correlation.is_some());
    // Signals that waited for the correlation are in the mailbox now.
    if more == PageRemainder::Remains || !commit.emitted.is_empty() || correlates {
        aftermath.ring_mailbox(commit.execution.clone());
    }
    let external = commit
        .actions
        .iter()
        .filter(|action| action.status == ActionStatus::Ready && action.terms.queue.is_external())
        .count();
    if external > 0 {
        aftermath.announce_tasks(&commit.execution);
    }
    if unleased > external {
        worker.note_due_actions(&commit.execution.tenant);
        aftermath.ring_actions(commit.execution.clone());
    }
    if commit.open_actions == OpenActions::Cancel && commit.state.phase != ExecutionPhase::Completed {
        // Cancels its actions that run on this worker.
        worker.leases.renew_ended(&BTreeSet::from([commit.execution.clone()]));
    }
    aftermath.add_log_lines(lines);
    graph_log::log_commit(worker, &commit);
    worker.states.put_state(commit.execution, position, commit.state);
}

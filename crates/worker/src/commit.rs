//! Decides a group of executions and writes the decisions in one transaction (group commit).
//!
//! Ready actions are leased along with the commit as far as this worker has free slots, which are reserved
//! before the call. When a commit fails half-way its outcome is in doubt: the worker assumes nothing, drops
//! the decoded state, and the next visit reads the store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_core::crash::CrashPoint;
use millstream_core::id::{AcceptNo, TenantId};
use millstream_core::status::{ActionStatus, Phase};
use millstream_rpc::evaluation_pool::PoolClosed;
use millstream_store::StoreError;
use millstream_store::execution_store::{Commit, Committed, EventVerdict, More, OpenActions};
use tokio::time::Instant;

use crate::aftermath::Aftermath;
use crate::bisect::Bisect;
use crate::decide::{DecidedVisit, VisitMember};
use crate::kept::{End, Why};
use crate::load::{Company, Found};
use crate::perform::Errand;
use crate::perform::tenant_slots::SlotsAside;
use crate::ready_nodes::ReadyNodes;
use crate::turn::Line;
use crate::worker::Worker;
use crate::{crash, decide, graph_log, metrics, poison};

/// Upper bound on expensive visits per commit; the others come back soon, queued behind those that waited
/// meanwhile.
const DEAR_PER_COMMIT: usize = 4;
/// Longest time spent deciding visits in sequence before yielding to the other tasks of the thread.
const LONGEST_WITHOUT_YIELD: Duration = Duration::from_millis(2);
/// Retries, without a pause, of a transaction that loses against concurrent ones.
const CONTENTIONS: u32 = 8;

/// Batches executions for commit: capped by bytes, and suspects alone, after all others.
pub(crate) fn groups(found: Vec<Found>, max_bytes: usize) -> Vec<Vec<Found>> {
    let (mut groups, mut alone, mut group, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0usize);
    for mut found in found {
        poison::cut(&mut found);
        if found.company == Company::Alone {
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
pub(crate) async fn commit(
    worker: &Worker,
    group: Vec<Found>,
    ends: &mut [Option<End>],
    aftermath: &mut Aftermath,
) -> Vec<usize> {
    notice_queue(worker, &group);
    let (mut decided, mut dear) = (Vec::new(), Vec::new());
    let mut resumed = Instant::now();
    for found in group {
        if resumed.elapsed() >= LONGEST_WITHOUT_YIELD {
            tokio::task::yield_now().await;
            resumed = Instant::now();
        }
        let at = found.at();
        match decide::inline(worker, found, aftermath) {
            DecidedVisit::Commit(member, commit) => decided.push((*member, *commit)),
            DecidedVisit::Nothing => ends[at] = Some(End::Answered),
            DecidedVisit::Dear(found) => dear.push(*found),
            DecidedVisit::Abandoned { why } => ends[at] = Some(End::Kept(Why::Failed { why })),
        }
    }
    let mut conflicts = write_all(worker, decided, ends, aftermath).await;
    // Expensive visits come last, each in a transaction of its own.
    for (n, found) in dear.into_iter().enumerate() {
        let at = found.at();
        if n >= DEAR_PER_COMMIT {
            decide::put_back(worker, found);
            ends[at] = Some(End::Kept(Why::Busy));
            continue;
        }
        match decide::in_pool(worker, found, aftermath).await {
            Ok(DecidedVisit::Commit(member, commit)) => {
                let lost = write_all(worker, vec![(*member, *commit)], ends, aftermath).await;
                conflicts.extend(lost);
            }
            Ok(DecidedVisit::Nothing) => ends[at] = Some(End::Answered),
            Ok(DecidedVisit::Dear(found)) => {
                decide::put_back(worker, *found);
                ends[at] = Some(End::Kept(Why::Busy));
            }
            Ok(DecidedVisit::Abandoned { why }) => ends[at] = Some(End::Kept(Why::Failed { why })),
            Err(PoolClosed) => ends[at] = Some(End::Kept(Why::Unavailable)),
        }
    }
    conflicts
}

/// Writes the decisions; returns the executions with a conflict.
async fn write_all(
    worker: &Worker,
    decided: Vec<(VisitMember, Commit)>,
    ends: &mut [Option<End>],
    aftermath: &mut Aftermath,
) -> Vec<usize> {
    let (mut members, commits): (Vec<VisitMember>, Vec<Commit>) = decided.into_iter().unzip();
    let mut conflicts = Vec::new();
    let mut parts = Bisect::of(commits.len());
    let mut commits: Vec<Option<Commit>> = commits.into_iter().map(Some).collect();
    while let Some(range) = parts.next() {
        let batch: Vec<Commit> = commits[range.clone()].iter_mut().filter_map(Option::take).collect();
        match write(worker, &batch, aftermath).await {
            Ok(verdicts) => {
                for ((member, commit), verdict) in members[range].iter_mut().zip(batch).zip(verdicts) {
                    match verdict {
                        Committed::Done { leased: _, unleased, emitted: _ } => {
                            ends[member.at] = Some(End::Answered);
                            let lines = std::mem::take(&mut member.lines);
                            let (position, more) = (member.position, member.more);
                            committed(worker, commit, position, more, lines, unleased, aftermath);
                        }
                        Committed::Conflict => {
                            ::metrics::counter!(metrics::CONFLICTS).increment(1);
                            conflicts.push(member.at);
                        }
                        Committed::Missing => ends[member.at] = Some(End::Answered),
                    }
                }
            }
            Err(StoreError::Corrupt(_)) if range.len() > 1 => {
                for (slot, commit) in commits[range.clone()].iter_mut().zip(batch) {
                    *slot = Some(commit);
                }
                parts.halve(range);
            }
            Err(StoreError::Corrupt(why)) => {
                for member in &members[range] {
                    ends[member.at] = Some(End::Kept(Why::Failed { why: why.clone() }));
                }
            }
            Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => {
                worker.store_outage.met(&error);
                for member in &members[range] {
                    ends[member.at] = Some(End::Kept(Why::Unavailable));
                }
            }
        }
    }
    conflicts
}

/// Records the queueing time of the doorbells answered here.
fn notice_queue(worker: &Worker, group: &[Found]) {
    let now = worker.now();
    let mut queue = worker.queue();
    for found in group {
        if let Some(head) = found.loaded.mailbox.first() {
            queue.decided(&found.loaded.execution.tenant, now.since(head.accepted_at));
        }
    }
}

/// One transaction, retried on contention.
async fn write(
    worker: &Worker,
    batch: &[Commit],
    aftermath: &mut Aftermath,
) -> Result<Vec<Committed>, StoreError> {
    let mut barred = worker.barred_tenants();
    let mut wanted: BTreeMap<&TenantId, usize> = BTreeMap::new();
    for commit in batch.iter().filter(|commit| !barred.contains(&commit.execution.tenant)) {
        let ready = commit.actions.iter().filter(|action| action.status == ActionStatus::Ready);
        let ready = ready.filter(|action| worker.can_perform(&action.terms.queue)).count();
        *wanted.entry(&commit.execution.tenant).or_default() += ready;
    }
    wanted.retain(|_, ready| *ready > 0);
    // Dropped once the leased actions hold their slots.
    let aside = worker.set_slots_aside(wanted, &mut barred);
    let ready = aside.iter().map(SlotsAside::len).sum();
    let own = match barred.is_empty() {
        true => worker.grant(0),
        false => worker.grant_except(&barred, batch.iter().map(|commit| &commit.execution.tenant)),
    };
    let events: usize = batch.iter().map(|commit| commit.decided.len()).sum();
    #[expect(clippy::cast_precision_loss, reason = "a batch size")]
    ::metrics::histogram!(metrics::BATCH_EVENTS).record(events as f64);
    let mut reserved = worker.slots.reserve(ready);
    let mut nodes = ReadyNodes::of(batch);
    if reserved.len() == ready {
        nodes.claim(worker);
    }
    let mut contentions = 0;
    crash::here(worker.options.crash, CrashPoint::WorkerBeforeCommit);
    loop {
        let asked = Instant::now();
        let grant = nodes.added_to(own.of(reserved.len()));
        let executions = &worker.deps.stores.executions;
        match executions.commit(&worker.options.worker, batch, &grant, worker.now()).await {
            Ok(mut verdicts) => {
                ::metrics::histogram!(metrics::COMMIT_SECONDS).record(asked.elapsed().as_secs_f64());
                crash::here(worker.options.crash, CrashPoint::WorkerAfterCommit);
                worker.store_outage.over();
                let is_news = nodes.leave_behind(worker);
                for (verdict, commit) in verdicts.iter_mut().zip(batch) {
                    if let Committed::Done { leased, unleased, .. } = verdict {
                        let left = nodes.left(commit);
                        *unleased = unleased.saturating_sub(left);
                        if left > 0 && is_news {
                            aftermath.ring_actions(commit.execution.clone());
                        }
                        let (of_nodes, leased) = nodes.part(std::mem::take(leased));
                        aftermath.perform(worker, leased, &mut reserved, asked);
                        for (action, slot) in of_nodes {
                            worker.performers.hand_over(Errand::new(worker, action, slot, asked));
                        }
                    }
                }
                return Ok(verdicts);
            }
            Err(StoreError::Contention(_)) if contentions < CONTENTIONS => {
                contentions += 1;
                tokio::time::sleep(worker.around(Duration::from_millis(1 << contentions))).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Effects of a durable commit.
fn committed(
    worker: &Worker,
    commit: Commit,
    position: AcceptNo,
    more: More,
    lines: Vec<Line>,
    unleased: usize,
    aftermath: &mut Aftermath,
) {
    for decided in &commit.decided {
        aftermath.decided(match &decided.verdict {
            EventVerdict::Applied { .. } => "applied",
            EventVerdict::Rejected { .. } => "rejected",
            EventVerdict::Deferred => "deferred",
        });
        aftermath.news(&commit.execution, commit.state.seq, decided.event_id);
    }
    for timer in &commit.timers {
        worker.timers.set(worker.instant_of(timer.fire_at));
    }
    let correlates = commit.transitions.iter().any(|transition| transition.decision.correlation.is_some());
    // Signals that waited for the correlation are in the mailbox now.
    if more == More::Remains || !commit.emitted.is_empty() || correlates {
        aftermath.ring_mailbox(commit.execution.clone());
    }
    let external = commit
        .actions
        .iter()
        .filter(|action| action.status == ActionStatus::Ready && action.terms.queue.is_external())
        .count();
    if external > 0 {
        aftermath.work(&commit.execution);
    }
    if unleased > external {
        worker.hear_of_actions(&commit.execution.tenant);
        aftermath.ring_actions(commit.execution.clone());
    }
    if commit.open_actions == OpenActions::Cancel && commit.state.phase != Phase::Completed {
        // Cancels its actions that run on this worker.
        worker.leases.ended(&BTreeSet::from([commit.execution.clone()]));
    }
    aftermath.lines(lines);
    graph_log::told(worker, &commit);
    worker.states.put(commit.execution, position, commit.state);
}

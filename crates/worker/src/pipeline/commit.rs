//! Decides a group of executions and writes the decisions in one transaction (group commit).
//!
//! Deciding is pure code between two calls of the store. A visit is decided on the current thread as long as
//! its expressions stay cheap, which costs no thread switch. An expensive visit is left undecided after a few
//! milliseconds of work and decided again on the worker's [`EvaluationPool`], after the cheap visits of its
//! group have been committed. A long visit ends early with the events decided so far and rings a new doorbell
//! for the rest, so that other executions get their turn in between. An event that exceeds the time limit of
//! the pool is undecided and counts under the poison rule.
//!
//! Ready actions are leased along with the commit as far as this worker has free slots, which are reserved
//! before the call. When a commit fails half-way its outcome is in doubt: the worker assumes nothing, drops
//! the decoded state, and the next visit reads the store.

use std::time::Duration;

use millstream_expr::STEP_UNITS;
use millstream_model::crash::CrashPoint;
use millstream_model::id::AcceptNo;
use millstream_model::status::PauseState;
use millstream_rpc::evaluation_pool::{EvaluationPool, PoolClosed};
use millstream_store::StoreError;
use millstream_store::execution_store::{CommitVerdict, ExecutionCommit, LoadedExecution, PageRemainder};
use millstream_workflow::log::{UnfinishedReason, VisitDecisions};
use millstream_workflow::machine;
use millstream_workflow::program::ExecutionProgram;
use millstream_workflow::visit_limits::VisitLimits;
use tokio::time::Instant;

use super::commit_builder::{self, LogLine, StateBeforeTurn};
use super::decider::MailboxDecider;
use super::inbox::{RetryReason, VisitOutcome};
use super::load::{self, CommitSharing, DecidedBy, LoadedVisit};
use super::poison;
use super::post_commit::{DurableCommit, PostCommit};
use crate::bisect::BatchBisect;
use crate::{crash_point, metrics};

/// Upper bound on expensive visits per commit; the others come back soon, queued behind those that waited
/// meanwhile.
const DEAR_PER_COMMIT: usize = 4;
/// Longest time spent deciding visits in sequence before yielding to the other tasks of the thread.
const LONGEST_WITHOUT_YIELD: Duration = Duration::from_millis(2);
/// Retries, without a pause, of a transaction that loses against concurrent ones.
const CONTENTIONS: u32 = 8;

const TOO_LONG: &str = "deciding it exceeded the time limit";

/// The rest of a visit, needed once its commit is durable.
#[derive(Debug)]
struct VisitMember {
    at: usize,
    position: AcceptNo,
    more: PageRemainder,
    lines: Vec<LogLine>,
}

/// Result of deciding a visit.
#[derive(Debug)]
enum DecidedVisit {
    Commit(Box<VisitMember>, Box<ExecutionCommit>),
    Nothing,
    /// Its first event takes more work than is allowed on a thread of the runtime.
    Dear(Box<LoadedVisit>),
    /// The time limit ended the evaluation of its first event.
    Abandoned {
        why: String,
    },
}

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
            + found.loaded.mailbox.iter().map(load::mailbox_event_bytes).sum::<usize>();
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
    decider: &MailboxDecider,
    group: Vec<LoadedVisit>,
    ends: &mut [Option<VisitOutcome>],
    effects: &mut PostCommit,
) -> Vec<usize> {
    record_queueing_time(decider, &group);
    let (mut decided, mut dear) = (Vec::new(), Vec::new());
    let mut resumed = Instant::now();
    for found in group {
        if resumed.elapsed() >= LONGEST_WITHOUT_YIELD {
            tokio::task::yield_now().await;
            resumed = Instant::now();
        }
        let at = found.visit_index();
        match decide_inline(decider, found, effects) {
            DecidedVisit::Commit(member, commit) => decided.push((*member, *commit)),
            DecidedVisit::Nothing => ends[at] = Some(VisitOutcome::Answered),
            DecidedVisit::Dear(found) => dear.push(*found),
            DecidedVisit::Abandoned { why } => {
                ends[at] = Some(VisitOutcome::Kept(RetryReason::Failed { why }))
            }
        }
    }
    let mut conflicts = write_decisions(decider, decided, ends, effects).await;
    // Expensive visits come last, each in a transaction of its own.
    for (n, found) in dear.into_iter().enumerate() {
        let at = found.visit_index();
        if n >= DEAR_PER_COMMIT {
            return_state_to_cache(decider, found);
            ends[at] = Some(VisitOutcome::Kept(RetryReason::Busy));
            continue;
        }
        match decide_in_pool(decider, found, effects).await {
            Ok(DecidedVisit::Commit(member, commit)) => {
                let lost = write_decisions(decider, vec![(*member, *commit)], ends, effects).await;
                conflicts.extend(lost);
            }
            Ok(DecidedVisit::Nothing) => ends[at] = Some(VisitOutcome::Answered),
            Ok(DecidedVisit::Dear(found)) => {
                return_state_to_cache(decider, *found);
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

/// Decides as many events as are cheap.
fn decide_inline(decider: &MailboxDecider, found: LoadedVisit, effects: &mut PostCommit) -> DecidedVisit {
    let limits = VisitLimits { units: EvaluationPool::inline().units, stop: EvaluationPool::inline() };
    let before = state_before_turn(&found);
    let LoadedVisit { at, loaded, state, by, company } = found;
    let turn = match &by {
        DecidedBy::Program(program) => {
            crash_point::crash_on_event(decider.env.options.crash_on.as_ref(), &loaded.mailbox);
            program.decide_mailbox_within(state, &loaded.mailbox, loaded.pause, decider.env.now(), limits)
        }
        DecidedBy::Closing => machine::decide_without_definition(state, &loaded.mailbox, decider.env.now()),
    };
    match turn.unfinished {
        Some(UnfinishedReason::Abandoned(_)) if turn.outcomes.is_empty() => {
            DecidedVisit::Dear(Box::new(LoadedVisit { at, loaded, state: turn.state, by, company }))
        }
        Some(UnfinishedReason::Abandoned(_) | UnfinishedReason::Rest) | None => {
            let program = match &by {
                DecidedBy::Program(program) => Some(program),
                DecidedBy::Closing => None,
            };
            decided_visit(decider, at, loaded, before, (turn, program), effects)
        }
    }
}

/// Decides on a thread of the pool, within its time limit.
async fn decide_in_pool(
    decider: &MailboxDecider,
    found: LoadedVisit,
    effects: &mut PostCommit,
) -> Result<DecidedVisit, PoolClosed> {
    let (at, before) = (found.visit_index(), state_before_turn(&found));
    let program = match &found.by {
        DecidedBy::Program(program) => program.clone(),
        // Needs no expression, so it is never expensive.
        DecidedBy::Closing => return Ok(DecidedVisit::Dear(Box::new(found))),
    };
    let LoadedVisit { loaded, state, .. } = found;
    let (now, deciding) = (decider.env.now(), program.clone());
    let (turn, loaded) = decider
        .evaluations
        .run(move |stop| {
            let limits = VisitLimits { units: STEP_UNITS, stop };
            let turn = deciding.decide_mailbox_within(state, &loaded.mailbox, loaded.pause, now, limits);
            (turn, loaded)
        })
        .await?;
    match turn.unfinished {
        Some(UnfinishedReason::Abandoned(event_id)) if turn.outcomes.is_empty() => {
            tracing::warn!(execution.key = %loaded.execution, event.id = %event_id, "{TOO_LONG}");
            Ok(DecidedVisit::Abandoned { why: TOO_LONG.to_owned() })
        }
        Some(UnfinishedReason::Abandoned(_) | UnfinishedReason::Rest) | None => {
            Ok(decided_visit(decider, at, loaded, before, (turn, Some(&program)), effects))
        }
    }
}

/// Returns the decoded state to the cache, for the retry that follows soon.
fn return_state_to_cache(decider: &MailboxDecider, found: LoadedVisit) {
    decider.states.put_state(found.loaded.execution, found.loaded.position, found.state);
}

fn state_before_turn(found: &LoadedVisit) -> StateBeforeTurn {
    let loaded = &found.loaded;
    StateBeforeTurn::of_state(
        loaded.execution.clone(),
        loaded.definition.clone(),
        loaded.snapshot_seq,
        &found.state,
    )
}

fn decided_visit(
    decider: &MailboxDecider,
    at: usize,
    mut loaded: LoadedExecution,
    before: StateBeforeTurn,
    (turn, program): (VisitDecisions, Option<&ExecutionProgram>),
    effects: &mut PostCommit,
) -> DecidedVisit {
    if turn.unfinished.is_some() {
        loaded.more = PageRemainder::Remains;
    }
    if turn.outcomes.is_empty() {
        if loaded.more == PageRemainder::Remains {
            effects.notifications.ring_mailbox(loaded.execution.clone());
        }
        decider.states.put_state(loaded.execution, loaded.position, turn.state);
        return DecidedVisit::Nothing;
    }
    let mut new_id = || decider.env.new_event_id();
    let decision = commit_builder::build_commit(program, before, turn, &loaded.mailbox, &mut new_id);
    let Some(decision) = decision else { return DecidedVisit::Nothing };
    // A paused mailbox was loaded without its waiting events; its cancellation makes them available.
    let more = match loaded.pause {
        PauseState::Running => loaded.more,
        PauseState::Paused => PageRemainder::Remains,
    };
    let member = VisitMember { at, position: loaded.position, more, lines: decision.lines };
    DecidedVisit::Commit(Box::new(member), Box::new(decision.commit))
}

/// Writes the decisions; returns the executions with a conflict.
async fn write_decisions(
    decider: &MailboxDecider,
    decided: Vec<(VisitMember, ExecutionCommit)>,
    ends: &mut [Option<VisitOutcome>],
    effects: &mut PostCommit,
) -> Vec<usize> {
    let (mut members, commits): (Vec<VisitMember>, Vec<ExecutionCommit>) = decided.into_iter().unzip();
    let mut conflicts = Vec::new();
    let mut parts = BatchBisect::whole_batch(commits.len());
    let mut commits: Vec<Option<ExecutionCommit>> = commits.into_iter().map(Some).collect();
    while let Some(range) = parts.next_range() {
        let batch: Vec<ExecutionCommit> =
            commits[range.clone()].iter_mut().filter_map(Option::take).collect();
        match write_commits(decider, &batch, effects).await {
            Ok(verdicts) => {
                for ((member, commit), verdict) in members[range].iter_mut().zip(batch).zip(verdicts) {
                    match verdict {
                        CommitVerdict::Done { leased: _, unleased, emitted: _ } => {
                            ends[member.at] = Some(VisitOutcome::Answered);
                            let lines = std::mem::take(&mut member.lines);
                            let (position, more) = (member.position, member.more);
                            let durable = DurableCommit { commit, position, more, lines, unleased };
                            effects.record_commit(decider, durable);
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
                decider.env.store_outage.record_failure(&error);
                for member in &members[range] {
                    ends[member.at] = Some(VisitOutcome::Kept(RetryReason::Unavailable));
                }
            }
        }
    }
    conflicts
}

/// Records the queueing time of the doorbells answered here.
fn record_queueing_time(decider: &MailboxDecider, group: &[LoadedVisit]) {
    let now = decider.env.now();
    let heads = group.iter().filter_map(|found| {
        let head = found.loaded.mailbox.first()?;
        Some((&found.loaded.execution.tenant, now.since(head.accepted_at)))
    });
    decider.queueing.record_decided(heads);
}

/// One transaction, retried on contention.
async fn write_commits(
    decider: &MailboxDecider,
    batch: &[ExecutionCommit],
    effects: &mut PostCommit,
) -> Result<Vec<CommitVerdict>, StoreError> {
    // Dropped once the leased actions hold their slots.
    let mut reservation = decider.leasing.reserve_for(batch);
    let events: usize = batch.iter().map(|commit| commit.decided.len()).sum();
    #[expect(clippy::cast_precision_loss, reason = "a batch size")]
    ::metrics::histogram!(metrics::BATCH_EVENTS).record(events as f64);
    let mut contentions = 0;
    crash_point::crash_at(decider.env.options.crash, CrashPoint::WorkerBeforeCommit);
    loop {
        let asked = Instant::now();
        let grant = reservation.lease_grant();
        let executions = &decider.env.stores.executions;
        match executions
            .commit_executions(&decider.env.options.worker, batch, &grant, decider.env.now())
            .await
        {
            Ok(mut verdicts) => {
                ::metrics::histogram!(metrics::COMMIT_SECONDS).record(asked.elapsed().as_secs_f64());
                crash_point::crash_at(decider.env.options.crash, CrashPoint::WorkerAfterCommit);
                decider.env.store_outage.record_success();
                effects.hand_over_leased(&mut reservation, batch, &mut verdicts, asked);
                return Ok(verdicts);
            }
            Err(StoreError::Contention(_)) if contentions < CONTENTIONS => {
                contentions += 1;
                tokio::time::sleep(decider.env.jittered(Duration::from_millis(1 << contentions))).await;
            }
            Err(error) => return Err(error),
        }
    }
}

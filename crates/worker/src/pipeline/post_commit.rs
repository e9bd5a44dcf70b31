//! What follows a durable commit, in order. Each step may be lost with the process, and is repaired elsewhere.
//!
//! | step | effect | repair |
//! |---|---|---|
//! | 1. [`PostCommit::hand_over_leased`] | the performers get the actions that the commit leased | their leases run out |
//! | 2. [`PostCommit::record_commit`] | alarms, cached state and log lines of this worker; what is to be published is collected | the duties look at their ticks |
//! | 3. [`PostCommit::finish_visit`] | announcements; at the same time the locks are released, and then the doorbells are rung | listeners read the store again; the overdue sweep finds undecided events |
//! | 4. the same, last | the ack of the doorbells that the visit answered | the doorbell is delivered again |
//!
//! Steps 1 and 2 happen per commit, steps 3 and 4 once per visit.

use std::collections::{BTreeMap, HashSet};

use millstream_model::id::{AcceptNo, ExecutionKey};
use millstream_model::status::{ActionStatus, ExecutionPhase};
use millstream_store::execution_store::{
    CommitVerdict, EventVerdict, ExecutionCommit, OpenActions, PageRemainder,
};
use millstream_stream::doorbell::StreamEntryId;
use tokio::time::Instant;

use super::commit_builder::LogLine;
use super::decider::MailboxDecider;
use super::graph_log;
use super::inbox::{MailboxVisit, RetryReason, VisitOutcome};
use super::visit_locks::HeldVisitLocks;
use crate::action_log::write_log_line;
use crate::environment::WorkerEnvironment;
use crate::leasing::CommitReservation;
use crate::metrics;
use crate::notifications::WriteNotifications;

/// What a visit publishes when all its commits are durable.
#[derive(Debug, Default)]
pub(crate) struct PostCommit {
    pub(crate) notifications: WriteNotifications,
    lines: Vec<LogLine>,
    /// Events decided, by verdict; counted once per visit.
    decided: BTreeMap<&'static str, u64>,
}

/// The rest of a commit that became durable.
#[derive(Debug)]
pub(crate) struct DurableCommit {
    pub(crate) commit: ExecutionCommit,
    pub(crate) position: AcceptNo,
    pub(crate) more: PageRemainder,
    pub(crate) lines: Vec<LogLine>,
    /// Number of actions that are ready and were not leased.
    pub(crate) unleased: usize,
}

impl PostCommit {
    /// Hands the leased actions over at once, without waiting for the rest of the visit. `asked` is the instant
    /// before the commit.
    pub(crate) fn hand_over_leased(
        &mut self,
        reservation: &mut CommitReservation<'_>,
        batch: &[ExecutionCommit],
        verdicts: &mut [CommitVerdict],
        asked: Instant,
    ) {
        let is_news = reservation.leave_other_nodes();
        for (verdict, commit) in verdicts.iter_mut().zip(batch) {
            if let CommitVerdict::Done { leased, unleased, .. } = verdict {
                let left = reservation.count_other_nodes(commit);
                *unleased = unleased.saturating_sub(left);
                if left > 0 && is_news {
                    self.notifications.ring_actions(commit.execution.clone());
                }
                reservation.start_actions(std::mem::take(leased), asked);
            }
        }
    }

    /// Records the effects of a durable commit on this worker, and collects what is to be published.
    pub(crate) fn record_commit(&mut self, decider: &MailboxDecider, durable: DurableCommit) {
        let DurableCommit { commit, position, more, lines, unleased } = durable;
        for decided in &commit.decided {
            self.count_verdict(match &decided.verdict {
                EventVerdict::Applied { .. } => "applied",
                EventVerdict::Rejected { .. } => "rejected",
                EventVerdict::Deferred => "deferred",
            });
            self.notifications.announce_transition(&commit.execution, commit.state.seq, decided.event_id);
        }
        for timer in &commit.timers {
            decider.timers.set_instant(decider.env.instant_of(timer.fire_at));
        }
        let correlates =
            commit.transitions.iter().any(|transition| transition.decision.correlation.is_some());
        // Signals that waited for the correlation are in the mailbox now.
        if more == PageRemainder::Remains || !commit.emitted.is_empty() || correlates {
            self.notifications.ring_mailbox(commit.execution.clone());
        }
        let external = commit
            .actions
            .iter()
            .filter(|action| action.status == ActionStatus::Ready && action.terms.queue.is_external())
            .count();
        if external > 0 {
            self.notifications.announce_tasks(&commit.execution);
        }
        if unleased > external {
            decider.leasing.note_due_actions(&commit.execution.tenant);
            self.notifications.ring_actions(commit.execution.clone());
        }
        if commit.open_actions == OpenActions::Cancel && commit.state.phase != ExecutionPhase::Completed {
            // Cancels its actions that run on this worker.
            decider.leasing.renew_leases_of(&commit.execution);
        }
        self.lines.extend(lines);
        graph_log::log_commit(&decider.ended_graphs, &commit);
        decider.states.put_state(commit.execution, position, commit.state);
    }

    fn count_verdict(&mut self, verdict: &'static str) {
        *self.decided.entry(verdict).or_default() += 1;
    }

    /// Publishes, unlocks, rings and acknowledges; returns the outcome of each visit.
    pub(crate) async fn finish_visit(
        self,
        env: &WorkerEnvironment,
        visits: Vec<MailboxVisit>,
        ends: Vec<Option<VisitOutcome>>,
        locks: Option<HeldVisitLocks>,
    ) -> Vec<(MailboxVisit, VisitOutcome)> {
        // Starts the leased actions now: the rest of the visit takes far less time than an action.
        tokio::task::yield_now().await;
        let unlock = async {
            if let Some(locks) = &locks {
                locks.release(env).await;
            }
        };
        let unrung = self.publish(env, unlock).await;
        let ended = visits.into_iter().zip(ends).map(|(visit, end)| {
            let end = match end {
                Some(VisitOutcome::Answered) if unrung.contains(&visit.execution) => {
                    VisitOutcome::Kept(RetryReason::Unrung)
                }
                Some(end) => end,
                None => VisitOutcome::Kept(RetryReason::Busy),
            };
            (visit, end)
        });
        acknowledge_answered(env, ended.collect()).await
    }

    /// Returns the executions whose mailbox could not be rung. `unlock` is awaited before ringing.
    async fn publish(
        self,
        env: &WorkerEnvironment,
        unlock: impl Future<Output = ()>,
    ) -> HashSet<ExecutionKey> {
        for (verdict, count) in self.decided {
            ::metrics::counter!(metrics::DECIDED, "verdict" => verdict).increment(count);
        }
        for line in self.lines {
            write_log_line(&line.key, &line.text);
        }
        self.notifications.publish(env, unlock).await
    }
}

/// Acknowledges the answered doorbells in one call. Those that cannot be acknowledged are kept: the next
/// visit finds no work and tries again.
async fn acknowledge_answered(
    env: &WorkerEnvironment,
    mut ended: Vec<(MailboxVisit, VisitOutcome)>,
) -> Vec<(MailboxVisit, VisitOutcome)> {
    let entries: Vec<StreamEntryId> = ended
        .iter()
        .filter(|(_, end)| *end == VisitOutcome::Answered)
        .flat_map(|(visit, _)| visit.entries.iter().cloned())
        .collect();
    if entries.is_empty() {
        return ended;
    }
    if let Err(error) = env.streams.bells.ack_entries(&entries).await {
        env.stream_outage.record_failure(&error);
        let unacked: HashSet<StreamEntryId> = entries.into_iter().collect();
        for (visit, end) in &mut ended {
            if visit.entries.iter().any(|entry| unacked.contains(entry)) {
                *end = VisitOutcome::Kept(RetryReason::Unavailable);
            }
        }
    }
    ended
}

//! One visit to a batch of executions: lock and load → decide → commit → publish → unlock → ack.
//!
//! The ack comes last, and only where the store alone knows the remaining work: every loaded event is decided
//! and, where more remain, a new doorbell has been rung. Any failure on the way leaves the doorbells pending.
//!
//! | failure | consequence |
//! |---|---|
//! | lock busy | kept, retried within 50 ms |
//! | lock service down | continue without: the fence is the expected seq; the locks taken are released |
//! | conflict at the commit | load and decide again, a few times, then kept |
//! | store unavailable | kept, retried with back-off; no attempt is counted |
//! | an execution is unreadable | paused with the reason; the others continue |
//! | the database refuses the data | the batch is bisected; the execution that fails alone is suspected |
//! | the definition is not for this build | kept for a while, then rung again for other workers |
//! | a panic | the executions of that commit are suspected (see [`super::poison`]) |
//! | the process dies | the doorbells stay pending and are reclaimed (see [`super::reclaim`]) |

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use millstream_model::id::ExecutionKey;
use millstream_model::mutation::{self, Mutation};
use millstream_stream::doorbell::StreamEntryId;

use super::decider::MailboxDecider;
use super::inbox::{MailboxVisit, RetryReason, SuspectAttempt, VisitOutcome, VisitSuspicion};
use super::load::{self, FetchedVisit, LoadedVisit};
use super::post_commit::PostCommit;
use super::visit_locks::HeldVisitLocks;
use super::{commit, poison};
use crate::environment::WorkerEnvironment;
use crate::metrics;
use crate::panic_text::panic_text;

/// Optimistic concurrency: a commit with this many conflicts in a row is kept instead, as another worker is
/// active.
const ROUNDS: usize = 4;

/// Visits each execution once and returns the outcome of each.
pub(crate) async fn visit_batch(
    decider: Arc<MailboxDecider>,
    visits: Vec<MailboxVisit>,
) -> Vec<(MailboxVisit, VisitOutcome)> {
    #[expect(clippy::cast_precision_loss, reason = "a batch size")]
    ::metrics::histogram!(metrics::BATCH_EXECUTIONS).record(visits.len() as f64);
    let mut ends = vec![None; visits.len()];
    skip_answered(&decider.env, &visits, &mut ends).await;
    if mutation::is_active(Mutation::AckBeforeCommit) {
        let entries: Vec<StreamEntryId> =
            visits.iter().flat_map(|visit| visit.entries.iter().cloned()).collect();
        let _ = decider.env.streams.bells.ack_entries(&entries).await;
    }
    let (token, first) = if is_suspect(&visits) {
        (decider.locks.lock_executions(&decider.env, &visits, &mut ends).await, Vec::new())
    } else {
        // Concurrent: the lock is rarely busy, and the fence protects what was loaded without it.
        let open: Vec<usize> = (0..visits.len()).filter(|at| ends[*at].is_none()).collect();
        let load = async {
            // The lock request is sent first; otherwise its answer would come after the store's.
            tokio::task::yield_now().await;
            load::fetch_visits(&decider, &visits, &open).await
        };
        futures::join!(decider.locks.lock_executions(&decider.env, &visits, &mut ends), load)
    };
    let open: Vec<usize> = (0..visits.len()).filter(|at| ends[*at].is_none()).collect();
    let keys: Vec<ExecutionKey> = open.iter().map(|at| visits[*at].execution.clone()).collect();

    let mut effects = PostCommit::default();
    let work = async {
        match &visits[..] {
            [MailboxVisit { suspicion: VisitSuspicion::Alone { why, attempt }, .. }] if !open.is_empty() => {
                decide_alone(&decider, &visits, (why, *attempt), &mut ends, &mut effects).await;
            }
            _ => decide_loaded(&decider, &visits, first, open, &mut ends, &mut effects).await,
        }
        pass_on_foreign(&visits, &mut ends, &mut effects);
    };
    let locks = token.map(|token| HeldVisitLocks::new(keys, token));
    match &locks {
        Some(locks) => locks.while_held(&decider.env, work).await,
        None => work.await,
    }
    effects.finish_visit(&decider.env, visits, ends, locks).await
}

/// Skips lock and load for kept executions that another worker has finished meanwhile.
async fn skip_answered(env: &WorkerEnvironment, visits: &[MailboxVisit], ends: &mut [Option<VisitOutcome>]) {
    let tried: Vec<usize> = (0..visits.len()).filter(|at| visits[*at].tries > 0).collect();
    if tried.is_empty() {
        return;
    }
    let keys: Vec<ExecutionKey> = tried.iter().map(|at| visits[*at].execution.clone()).collect();
    // After an error they are loaded like the others, and loading meets the same error.
    if let Ok(work) = env.stores.events.has_work(&keys).await {
        for (at, _) in tried.into_iter().zip(work).filter(|(_, has_work)| !has_work) {
            ends[at] = Some(VisitOutcome::Answered);
        }
    }
}

/// Whether this is the visit to a suspect, alone.
fn is_suspect(visits: &[MailboxVisit]) -> bool {
    matches!(visits, [MailboxVisit { suspicion: VisitSuspicion::Alone { .. }, .. }])
}

/// Decides and commits the loaded executions, and reloads those with a conflict, until none is left. Fills in
/// the ends of `open`; a visit still open afterwards lost every round.
async fn decide_loaded(
    decider: &MailboxDecider,
    visits: &[MailboxVisit],
    first: Vec<FetchedVisit>,
    mut open: Vec<usize>,
    ends: &mut [Option<VisitOutcome>],
    effects: &mut PostCommit,
) {
    let mut first = Some(first);
    for _ in 0..ROUNDS {
        let found = match first.take() {
            Some(fetched) => {
                let found = load::select_decidable(decider, visits, fetched, ends).await;
                poison::separate_suspects(&decider.env, visits, found, ends).await
            }
            None if open.is_empty() => return,
            None => load::load_visits(decider, visits, &open, ends).await,
        };
        open.clear();
        for group in commit::group_for_commit(found, decider.env.options.visit_bytes) {
            let members: Vec<usize> = group.iter().map(LoadedVisit::visit_index).collect();
            let committed = AssertUnwindSafe(commit::decide_and_commit(decider, group, ends, effects))
                .catch_unwind()
                .await;
            match committed {
                Ok(conflicts) => open.extend(conflicts),
                Err(panic) => {
                    let why = panic_text(&*panic);
                    tracing::error!(error = %why, executions = members.len(), "panic while deciding");
                    for at in members {
                        ends[at] = Some(VisitOutcome::Kept(RetryReason::Failed { why: why.clone() }));
                    }
                }
            }
        }
    }
}

/// Decides a suspect: one event at a time, each counted just before, up to the limit of one visit. The events
/// behind an innocent head are as suspect as the head was.
async fn decide_alone(
    decider: &MailboxDecider,
    visits: &[MailboxVisit],
    (why, attempt): (&str, SuspectAttempt),
    ends: &mut [Option<VisitOutcome>],
    effects: &mut PostCommit,
) {
    let (mut attempt, mut conflicts) = (attempt, 0);
    for _ in 0..decider.env.options.mailbox.events {
        let Some(mut found) = load::load_visits(decider, visits, &[0], ends).await.pop() else {
            if ends[0] == Some(VisitOutcome::Answered) {
                effects.notifications.forget_mailbox(&visits[0].execution);
            }
            return;
        };
        if let Err(end) = poison::count_suspect_attempt(&decider.env, &mut found, attempt, why).await {
            ends[0] = Some(end);
            return;
        }
        for group in commit::group_for_commit(vec![found], decider.env.options.visit_bytes) {
            let committed = AssertUnwindSafe(commit::decide_and_commit(decider, group, ends, effects))
                .catch_unwind()
                .await;
            attempt = match committed {
                Ok(lost) if lost.is_empty() => SuspectAttempt::ToCount,
                Ok(_) => {
                    conflicts += 1;
                    SuspectAttempt::Counted
                }
                Err(panic) => {
                    let why = panic_text(&*panic);
                    tracing::error!(error = %why, executions = 1, "panic while deciding");
                    ends[0] = Some(VisitOutcome::Kept(RetryReason::Failed { why }));
                    return;
                }
            };
        }
        match ends[0].take() {
            // Decided: continue with the next one, if any.
            Some(VisitOutcome::Answered) => {}
            None if conflicts < ROUNDS => {}
            None | Some(VisitOutcome::Kept(RetryReason::Unavailable)) => {
                ends[0] = Some(VisitOutcome::Kept(RetryReason::Unfinished { why: why.to_owned() }));
                return;
            }
            Some(end @ VisitOutcome::Kept(_)) => {
                ends[0] = Some(end);
                return;
            }
        }
    }
    // A doorbell was rung for the rest.
    ends[0] = Some(VisitOutcome::Answered);
}

/// Passes on a doorbell that this build cannot answer: the second time it is rung again, so that any worker
/// may read it.
fn pass_on_foreign(visits: &[MailboxVisit], ends: &mut [Option<VisitOutcome>], effects: &mut PostCommit) {
    for (visit, end) in visits.iter().zip(ends) {
        if *end == Some(VisitOutcome::Kept(RetryReason::Foreign)) && visit.tries > 0 {
            effects.notifications.ring_mailbox(visit.execution.clone());
            *end = Some(VisitOutcome::Answered);
        }
    }
}

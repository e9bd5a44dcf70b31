//! One visit to a batch of executions: lock and load → decide → commit → tell → unlock → ack.
//!
//! The ack comes last, and only where the store alone knows what is left: everything that the visit
//! loaded is decided and, where more remains, a new doorbell has been rung. Whatever goes wrong on the
//! way leaves the doorbells where they are.
//!
//! | what goes wrong | what follows |
//! |---|---|
//! | lock busy | kept, tried again within 50 ms |
//! | lock service down | go on without: the fence is the expected seq; what was taken is released |
//! | conflict at the commit | load and decide again, a few times, then kept |
//! | store unavailable | kept with patience; no attempt is counted |
//! | an execution cannot be read | paused with the reason; the others go on |
//! | the database refuses the data | the batch is bisected; the one that fails alone is suspected |
//! | the definition is not for this build | kept for a while, then rung anew for other workers |
//! | a panic | the executions of that commit are suspected (see [`crate::poison`]) |
//! | the process dies | the doorbells stay pending and are reclaimed (see [`crate::reclaim`]) |

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use millstream_core::id::ExecutionKey;
use millstream_core::planted::{self, Bug};
use millstream_stream::doorbell::EntryId;
use millstream_stream::locks::LockToken;

use crate::aftermath::Aftermath;
use crate::kept::{Attempt, End, Suspicion, Visit, Why};
use crate::load::{self, Fetched, Found};
use crate::worker::Worker;
use crate::{commit, metrics, poison, renew};

/// A commit that loses this often in a row is kept instead: somebody else is at it.
const ROUNDS: usize = 4;

/// Visits each execution once and says how it ended.
pub(crate) async fn visit(worker: Arc<Worker>, visits: Vec<Visit>) -> Vec<(Visit, End)> {
    #[expect(clippy::cast_precision_loss, reason = "a batch size")]
    ::metrics::histogram!(metrics::BATCH_EXECUTIONS).record(visits.len() as f64);
    let mut ends = vec![None; visits.len()];
    settle_answered(&worker, &visits, &mut ends).await;
    if planted::is(Bug::AckBeforeCommit) {
        let entries: Vec<EntryId> = visits.iter().flat_map(|visit| visit.entries.iter().cloned()).collect();
        let _ = worker.deps.streams.bells.ack(&entries).await;
    }
    let (token, first) = if is_suspect(&visits) {
        (lock(&worker, &visits, &mut ends).await, Vec::new())
    } else {
        // Side by side: the lock is rarely busy, and what was loaded without it is judged by the fence.
        let open: Vec<usize> = (0..visits.len()).filter(|at| ends[*at].is_none()).collect();
        let load = async {
            // The lock is on its way first, or its answer would come after the store's.
            tokio::task::yield_now().await;
            load::fetch(&worker, &visits, &open).await
        };
        futures::join!(lock(&worker, &visits, &mut ends), load)
    };
    let open: Vec<usize> = (0..visits.len()).filter(|at| ends[*at].is_none()).collect();
    let keys: Vec<ExecutionKey> = open.iter().map(|at| visits[*at].execution.clone()).collect();

    let mut aftermath = Aftermath::default();
    let work = async {
        match &visits[..] {
            [Visit { suspicion: Suspicion::Alone { why, attempt }, .. }] if !open.is_empty() => {
                decide_alone(&worker, &visits, (why, *attempt), &mut ends, &mut aftermath).await;
            }
            _ => decide(&worker, &visits, first, open, &mut ends, &mut aftermath).await,
        }
        pass_on(&visits, &mut ends, &mut aftermath);
    };
    match &token {
        Some(token) => renew::while_locked(&worker, &keys, token, work).await,
        None => work.await,
    }
    // What was leased begins now: nobody waits for the rest as long as for an action.
    tokio::task::yield_now().await;
    let unrung = {
        let unlock = async {
            if let Some(token) = &token {
                // A lock that cannot be released runs out by itself.
                let _ = worker.deps.streams.locks.release(&keys, token).await;
            }
        };
        aftermath.tell(&worker, unlock).await
    };
    let ended = visits.into_iter().zip(ends).map(|(visit, end)| {
        let end = match end {
            Some(End::Answered) if unrung.contains(&visit.execution) => End::Kept(Why::Unavailable),
            Some(end) => end,
            None => End::Kept(Why::Busy),
        };
        (visit, end)
    });
    ack(&worker, ended.collect()).await
}

/// Kept executions that somebody else has finished meanwhile need no lock and no load.
async fn settle_answered(worker: &Worker, visits: &[Visit], ends: &mut [Option<End>]) {
    let tried: Vec<usize> = (0..visits.len()).filter(|at| visits[*at].tries > 0).collect();
    if tried.is_empty() {
        return;
    }
    let keys: Vec<ExecutionKey> = tried.iter().map(|at| visits[*at].execution.clone()).collect();
    // On an error they are loaded like the others, which will meet the same error.
    if let Ok(work) = worker.deps.stores.events.has_work(&keys).await {
        for (at, _) in tried.into_iter().zip(work).filter(|(_, has_work)| !has_work) {
            ends[at] = Some(End::Answered);
        }
    }
}

/// Locks what is open; busy ones are kept. `None` when there is nothing to release.
async fn lock(worker: &Worker, visits: &[Visit], ends: &mut [Option<End>]) -> Option<LockToken> {
    let open: Vec<usize> = (0..visits.len()).filter(|at| ends[*at].is_none()).collect();
    if open.is_empty() {
        return None;
    }
    let keys: Vec<ExecutionKey> = open.iter().map(|at| visits[*at].execution.clone()).collect();
    let token = worker.lock_token();
    match worker.deps.streams.locks.acquire(&keys, &token, worker.options.lock_ttl).await {
        Ok(granted) => {
            worker.lock_outage.over();
            for (at, _) in open.into_iter().zip(granted).filter(|(_, granted)| !granted) {
                ::metrics::counter!(metrics::LOCK_BUSY).increment(1);
                ends[at] = Some(End::Kept(Why::Busy));
            }
            Some(token)
        }
        Err(error) => {
            worker.lock_outage.met(&error);
            // Some may have been taken before it failed: they are released like any others.
            Some(token)
        }
    }
}

/// Whether this is the visit to a suspect, alone.
fn is_suspect(visits: &[Visit]) -> bool {
    matches!(visits, [Visit { suspicion: Suspicion::Alone { .. }, .. }])
}

/// Decides and commits what was loaded, and loads again what conflicts, until nothing does any more. Fills
/// in the ends of `open`; one that is still open afterwards lost every round.
async fn decide(
    worker: &Worker,
    visits: &[Visit],
    first: Vec<Fetched>,
    mut open: Vec<usize>,
    ends: &mut [Option<End>],
    aftermath: &mut Aftermath,
) {
    let mut first = Some(first);
    for _ in 0..ROUNDS {
        let found = match first.take() {
            Some(fetched) => {
                let found = load::sort_out(worker, visits, fetched, ends).await;
                poison::judge(worker, visits, found, ends).await
            }
            None if open.is_empty() => return,
            None => load::load(worker, visits, &open, ends).await,
        };
        open.clear();
        for group in commit::groups(found, worker.options.visit_bytes) {
            let members: Vec<usize> = group.iter().map(Found::at).collect();
            let committed =
                AssertUnwindSafe(commit::commit(worker, group, ends, aftermath)).catch_unwind().await;
            match committed {
                Ok(conflicts) => open.extend(conflicts),
                Err(panic) => {
                    let why = panic_text(&*panic);
                    tracing::error!(error = %why, executions = members.len(), "a panic while deciding");
                    for at in members {
                        ends[at] = Some(End::Kept(Why::Failed { why: why.clone() }));
                    }
                }
            }
        }
    }
}

/// Decides a suspect: one event at a time, each counted just before, as many as one visit may take.
/// What lies behind an innocent head is as much under suspicion as the head was.
async fn decide_alone(
    worker: &Worker,
    visits: &[Visit],
    (why, attempt): (&str, Attempt),
    ends: &mut [Option<End>],
    aftermath: &mut Aftermath,
) {
    let (mut attempt, mut conflicts) = (attempt, 0);
    for _ in 0..worker.options.mailbox.events {
        let Some(mut found) = load::load(worker, visits, &[0], ends).await.pop() else {
            if ends[0] == Some(End::Answered) {
                aftermath.forget_mailbox(&visits[0].execution);
            }
            return;
        };
        if let Err(end) = poison::try_alone(worker, &mut found, attempt, why).await {
            ends[0] = Some(end);
            return;
        }
        for group in commit::groups(vec![found], worker.options.visit_bytes) {
            let committed =
                AssertUnwindSafe(commit::commit(worker, group, ends, aftermath)).catch_unwind().await;
            attempt = match committed {
                Ok(lost) if lost.is_empty() => Attempt::ToCount,
                Ok(_) => {
                    conflicts += 1;
                    Attempt::Counted
                }
                Err(panic) => {
                    let why = panic_text(&*panic);
                    tracing::error!(error = %why, executions = 1, "a panic while deciding");
                    ends[0] = Some(End::Kept(Why::Failed { why }));
                    return;
                }
            };
        }
        match ends[0].take() {
            // Decided: the next one, if there is one.
            Some(End::Answered) => {}
            None if conflicts < ROUNDS => {}
            None | Some(End::Kept(Why::Unavailable)) => {
                ends[0] = Some(End::Kept(Why::Unfinished { why: why.to_owned() }));
                return;
            }
            Some(end @ End::Kept(_)) => {
                ends[0] = Some(end);
                return;
            }
        }
    }
    // A doorbell was rung for the rest.
    ends[0] = Some(End::Answered);
}

/// A doorbell that this build cannot answer is not held on to: the second time it is rung anew, so that
/// any worker may hear it.
fn pass_on(visits: &[Visit], ends: &mut [Option<End>], aftermath: &mut Aftermath) {
    for (visit, end) in visits.iter().zip(ends) {
        if *end == Some(End::Kept(Why::Foreign)) && visit.tries > 0 {
            aftermath.ring_mailbox(visit.execution.clone());
            *end = Some(End::Answered);
        }
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&'static str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "no message".to_owned()))
}

/// Acknowledges what is answered, in one call. What cannot be acknowledged is kept: the next visit
/// finds that it has no work and tries again.
async fn ack(worker: &Worker, mut ended: Vec<(Visit, End)>) -> Vec<(Visit, End)> {
    let entries: Vec<EntryId> = ended
        .iter()
        .filter(|(_, end)| *end == End::Answered)
        .flat_map(|(visit, _)| visit.entries.iter().cloned())
        .collect();
    if entries.is_empty() {
        return ended;
    }
    if let Err(error) = worker.deps.streams.bells.ack(&entries).await {
        worker.stream_outage.met(&error);
        let unacked: HashSet<EntryId> = entries.into_iter().collect();
        for (visit, end) in &mut ended {
            if visit.entries.iter().any(|entry| unacked.contains(entry)) {
                *end = End::Kept(Why::Unavailable);
            }
        }
    }
    ended
}

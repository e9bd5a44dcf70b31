//! Loads a batch of executions and separates those that cannot be decided.
//!
//! States that this worker decoded before come from the cache, and the store is asked only for newer data. An
//! execution whose snapshot or log is unreadable, or whose definition is gone, is paused with the reason; the
//! worker and the rest of the batch continue. An execution whose definition this build cannot use is not
//! paused, because a newer worker may be able to use it: its doorbell is kept for a while and then rung again
//! for other workers. Both kinds can be cancelled, which needs no definition.

use std::sync::Arc;

use millstream_model::error_class::ErrorClass;
use millstream_model::id::{AcceptNo, IncidentId};
use millstream_model::incident::NewIncident;
use millstream_rpc::blob;
use millstream_store::StoreError;
use millstream_store::execution_store::{
    CachedVersion, LoadRequest, LoadVerdict, LoadedExecution, MailboxLimits, PageRemainder,
};
use millstream_store::intervention::ExecutionPause;
use millstream_workflow::log::{ExecutionState, MailboxEvent, MailboxState as KeptAs};
use millstream_workflow::machine;
use millstream_workflow::program::ExecutionProgram;
use tokio::time::Instant;

use super::decider::MailboxDecider;
use super::inbox::{MailboxVisit, RetryReason, VisitOutcome, VisitSuspicion};
use crate::bisect::BatchBisect;
use crate::metrics;
use crate::program_cache::UnusableProgram;

/// An execution with something to decide.
#[derive(Debug)]
pub(crate) struct LoadedVisit {
    pub(crate) at: usize,
    pub(crate) loaded: LoadedExecution,
    pub(crate) state: ExecutionState,
    pub(crate) by: DecidedBy,
    pub(crate) company: CommitSharing,
}

/// The component that decides.
#[derive(Debug, Clone)]
pub(crate) enum DecidedBy {
    Program(ExecutionProgram),
    /// There is no program, and the mailbox needs none: it holds a cancellation, or the execution has ended.
    Closing,
}

/// Whether an execution may share its commit with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitSharing {
    Welcome,
    /// An earlier visit to it was cut short.
    Alone,
}

impl LoadedVisit {
    /// Index of its visit in the batch.
    pub(crate) fn visit_index(&self) -> usize {
        self.at
    }

    /// The event to decide first.
    pub(crate) fn head_event(&self) -> Option<&MailboxEvent> {
        let mailbox = &self.loaded.mailbox;
        mailbox.iter().find(|event| event.kept == KeptAs::Undecided).or_else(|| mailbox.first())
    }
}

/// The loaded data of one visit, before it is checked.
#[derive(Debug)]
pub(crate) struct FetchedVisit {
    at: usize,
    cached: Option<(AcceptNo, ExecutionState)>,
    loaded: Result<LoadVerdict, StoreError>,
}

/// Loads the `open` visits and records the outcome of those that end here.
pub(crate) async fn load_visits(
    decider: &MailboxDecider,
    visits: &[MailboxVisit],
    open: &[usize],
    ends: &mut [Option<VisitOutcome>],
) -> Vec<LoadedVisit> {
    let fetched = fetch_visits(decider, visits, open).await;
    select_decidable(decider, visits, fetched, ends).await
}

/// Reads the `open` visits from the store.
pub(crate) async fn fetch_visits(
    decider: &MailboxDecider,
    visits: &[MailboxVisit],
    open: &[usize],
) -> Vec<FetchedVisit> {
    let cached: Vec<Option<(AcceptNo, ExecutionState)>> =
        open.iter().map(|at| decider.states.take_state(&visits[*at].execution)).collect();
    let wanted: Vec<LoadRequest> = open
        .iter()
        .zip(&cached)
        .map(|(at, cached)| LoadRequest {
            execution: visits[*at].execution.clone(),
            known: cached
                .as_ref()
                .map(|(position, state)| CachedVersion { position: *position, seq: state.seq }),
        })
        .collect();
    let started = Instant::now();
    let loaded = if open.iter().any(|at| visits[*at].suspicion == VisitSuspicion::Redelivered) {
        // The first visit loaded at most this much. A shorter slice would succeed without the event that cut that
        // visit short, and the suspicion would be gone.
        let options = &decider.env.options;
        let limits = MailboxLimits { events: options.mailbox.events, ..options.mailbox_share(wanted.len()) };
        load_all(decider, &wanted, limits).await
    } else {
        load_shares(decider, &wanted).await
    };
    ::metrics::histogram!(metrics::LOAD_SECONDS).record(started.elapsed().as_secs_f64());
    let fetched = open.iter().copied().zip(cached).zip(loaded);
    fetched.map(|((at, cached), loaded)| FetchedVisit { at, cached, loaded }).collect()
}

/// Returns the executions with undecided events. The state of a visit that has ended meanwhile (its lock is
/// busy) goes back to the cache.
pub(crate) async fn select_decidable(
    decider: &MailboxDecider,
    visits: &[MailboxVisit],
    fetched: Vec<FetchedVisit>,
    ends: &mut [Option<VisitOutcome>],
) -> Vec<LoadedVisit> {
    let mut found = Vec::new();
    let mut unreadable = Vec::new();
    for FetchedVisit { at, cached, loaded } in fetched {
        if ends[at].is_some() {
            if let Some((position, state)) = cached {
                decider.states.put_state(visits[at].execution.clone(), position, state);
            }
            continue;
        }
        match sort_loaded(decider, cached.map(|(_, state)| state), loaded).await {
            SortedVisit::Decide(loaded, state, by) => {
                found.push(LoadedVisit { at, loaded: *loaded, state, by, company: CommitSharing::Welcome });
            }
            SortedVisit::End(end) => ends[at] = Some(end),
            SortedVisit::Unreadable(reason) => unreadable.push((at, reason)),
        }
    }
    pause_unreadable(decider, visits, unreadable, ends).await;
    found
}

enum SortedVisit {
    Decide(Box<LoadedExecution>, ExecutionState, DecidedBy),
    End(VisitOutcome),
    Unreadable(String),
}

async fn sort_loaded(
    decider: &MailboxDecider,
    cached: Option<ExecutionState>,
    loaded: Result<LoadVerdict, StoreError>,
) -> SortedVisit {
    let mut loaded = match loaded {
        Ok(LoadVerdict::Found(loaded)) => loaded,
        Ok(LoadVerdict::Missing) => return SortedVisit::End(VisitOutcome::Answered),
        Ok(LoadVerdict::Corrupt { reason }) | Err(StoreError::Corrupt(reason)) => {
            return SortedVisit::Unreadable(reason);
        }
        Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => {
            decider.env.store_outage.record_failure(&error);
            return SortedVisit::End(VisitOutcome::Kept(RetryReason::Unavailable));
        }
    };
    let state = match loaded.state.take() {
        Some((mut snapshot, newer)) => {
            if let Some(blob) = loaded.graph.take() {
                match blob::decode(&blob) {
                    Ok(graph) => snapshot.graph = Some(Arc::new(graph)),
                    Err(error) => {
                        return SortedVisit::Unreadable(format!("its graph cannot be read: {error}"));
                    }
                }
            }
            newer.iter().fold(snapshot, |state, transition| machine::evolve(Some(state), transition))
        }
        None => match cached {
            Some(state) => state,
            None => return SortedVisit::Unreadable("the store returned no state".to_owned()),
        },
    };
    if state.seq != loaded.seq {
        return SortedVisit::Unreadable(format!("its log ends at seq {}, not at {}", state.seq, loaded.seq));
    }
    if loaded.mailbox.iter().all(|event| event.kept == KeptAs::Deferred) {
        decider.states.put_state(loaded.execution, loaded.position, state);
        return SortedVisit::End(VisitOutcome::Answered);
    }
    let store = &*decider.env.stores.definitions;
    match decider.programs.get(store, &loaded.execution.tenant, &loaded.definition).await {
        Ok(Ok(program)) => SortedVisit::Decide(loaded, state, DecidedBy::Program(program)),
        Ok(Err(_)) if can_decide_without_program(&state, &loaded) => {
            SortedVisit::Decide(loaded, state, DecidedBy::Closing)
        }
        Ok(Err(reason @ UnusableProgram::Gone(_))) => SortedVisit::Unreadable(reason.to_string()),
        Ok(Err(UnusableProgram::Foreign(_))) => SortedVisit::End(VisitOutcome::Kept(RetryReason::Foreign)),
        Err(error) => {
            decider.env.store_outage.record_failure(&error);
            SortedVisit::End(VisitOutcome::Kept(RetryReason::Unavailable))
        }
    }
}

/// Whether the mailbox holds an event that needs no definition.
fn can_decide_without_program(state: &ExecutionState, loaded: &LoadedExecution) -> bool {
    let ends = |event: &MailboxEvent| event.kept == KeptAs::Undecided && event.name.is_end();
    state.phase.is_ended() || loaded.mailbox.iter().any(ends)
}

/// Loads an equal share of each mailbox. What small mailboxes leave goes to those that exceed their share, in a
/// second load.
async fn load_shares(
    decider: &MailboxDecider,
    wanted: &[LoadRequest],
) -> Vec<Result<LoadVerdict, StoreError>> {
    let options = &decider.env.options;
    let share = options.mailbox_share(wanted.len());
    let mut results = load_all(decider, wanted, share).await;
    let mut loaded = MailboxLimits { events: 0, bytes: 0 };
    let mut exceeding = Vec::new();
    for (at, result) in results.iter().enumerate() {
        let Ok(LoadVerdict::Found(found)) = result else { continue };
        loaded.events += found.mailbox.len();
        loaded.bytes += found.mailbox.iter().map(mailbox_event_bytes).sum::<usize>();
        if found.more == PageRemainder::Remains {
            exceeding.push(at);
        }
    }
    if let Some(limits) = options.remaining_share(share, loaded, exceeding.len()) {
        let wanted: Vec<LoadRequest> = exceeding.iter().map(|at| wanted[*at].clone()).collect();
        for (at, result) in exceeding.into_iter().zip(load_all(decider, &wanted, limits).await) {
            // The share is loaded: a failure of the second load does not take it back.
            if result.is_ok() {
                results[at] = result;
            }
        }
    }
    results
}

/// What an event in a mailbox counts towards the limits in bytes.
pub(crate) fn mailbox_event_bytes(event: &MailboxEvent) -> usize {
    event.payload.len() + 512
}

/// One call if the whole batch is readable; otherwise bisected so that one execution fails alone.
async fn load_all(
    decider: &MailboxDecider,
    wanted: &[LoadRequest],
    limits: MailboxLimits,
) -> Vec<Result<LoadVerdict, StoreError>> {
    let mut results = Vec::with_capacity(wanted.len());
    let mut parts = BatchBisect::whole_batch(wanted.len());
    while let Some(range) = parts.next_range() {
        match decider.env.stores.executions.load_executions(&wanted[range.clone()], limits).await {
            Ok(loaded) => results.extend(loaded.into_iter().map(Ok)),
            Err(StoreError::Corrupt(_)) if range.len() > 1 => {
                parts.split_range(range);
            }
            Err(StoreError::Corrupt(reason)) => results.push(Err(StoreError::Corrupt(reason))),
            Err(StoreError::Unavailable(reason) | StoreError::Contention(reason)) => {
                results.extend(range.map(|_| Err(StoreError::Unavailable(reason.clone()))));
            }
        }
    }
    results
}

async fn pause_unreadable(
    decider: &MailboxDecider,
    visits: &[MailboxVisit],
    unreadable: Vec<(usize, String)>,
    ends: &mut [Option<VisitOutcome>],
) {
    if unreadable.is_empty() {
        return;
    }
    let pausing = |(at, reason): &(usize, String)| ExecutionPause {
        execution: visits[*at].execution.clone(),
        incident: NewIncident {
            id: IncidentId(decider.env.new_event_id().0),
            class: ErrorClass::Corrupt,
            reason: reason.clone(),
        },
    };
    let pauses: Vec<ExecutionPause> = unreadable.iter().map(pausing).collect();
    let paused = decider.env.stores.interventions.pause_executions(&pauses, decider.env.now()).await;
    for ((at, reason), ExecutionPause { execution, .. }) in unreadable.into_iter().zip(&pauses) {
        ends[at] = Some(match &paused {
            Ok(()) => {
                ::metrics::counter!(metrics::PAUSED).increment(1);
                tracing::error!(execution.key = %execution, error = %reason, "execution is unreadable and is now paused");
                VisitOutcome::Answered
            }
            Err(error) => {
                tracing::error!(execution.key = %execution, error = %error, "could not pause an unreadable execution");
                VisitOutcome::Kept(RetryReason::Unavailable)
            }
        });
    }
}

/// Cuts the mailbox to the events of this turn: an event whose earlier decision was cut short goes alone.
pub(crate) fn cut_mailbox(loaded: &mut LoadedExecution) -> CommitSharing {
    let mut undecided = loaded.mailbox.iter().filter(|event| event.kept == KeptAs::Undecided);
    let Some(head) = undecided.next() else { return CommitSharing::Welcome };
    let (take, company) = if head.attempts > 0 {
        (1, CommitSharing::Alone)
    } else {
        (1 + undecided.take_while(|event| event.attempts == 0).count(), CommitSharing::Welcome)
    };
    let mut left = take;
    let before = loaded.mailbox.len();
    loaded.mailbox.retain(|event| match event.kept {
        KeptAs::Deferred => true,
        KeptAs::Undecided if left > 0 => {
            left -= 1;
            true
        }
        KeptAs::Undecided => false,
    });
    if loaded.mailbox.len() < before {
        loaded.more = PageRemainder::Remains;
    }
    company
}

#[cfg(test)]
mod tests {
    use millstream_model::id::{DefinitionRef, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId};
    use millstream_model::raw::RawJson;
    use millstream_model::status::PauseState;
    use millstream_model::time::Timestamp;
    use millstream_workflow::log::EventOrigin;

    use super::*;

    fn waiting(number: i64, kept: KeptAs, attempts: i32) -> MailboxEvent {
        MailboxEvent {
            event_id: EventId(uuid::Uuid::from_u128(number as u128)),
            accept_no: AcceptNo(number),
            name: Name::parse("e").unwrap(),
            payload: RawJson::null(),
            accepted_at: Timestamp::EPOCH,
            origin: EventOrigin::Posted,
            kept,
            attempts,
            traceparent: None,
        }
    }

    fn sliced(mailbox: Vec<MailboxEvent>) -> (Vec<i64>, CommitSharing, PageRemainder) {
        let tenant = TenantId::default_tenant();
        let mut loaded = LoadedExecution {
            execution: ExecutionKey { tenant, execution: ExecutionId::parse("x").unwrap() },
            position: AcceptNo(1),
            definition: DefinitionRef { name: Name::parse("d").unwrap(), version: 1 },
            seq: Seq(1),
            pause: PauseState::Running,
            state: None,
            snapshot_seq: Seq(1),
            mailbox,
            more: PageRemainder::Nothing,
            graph: None,
        };
        let company = cut_mailbox(&mut loaded);
        (loaded.mailbox.iter().map(|event| event.accept_no.0).collect(), company, loaded.more)
    }

    #[test]
    fn suspect_event_keeps_deferred_events() {
        let mailbox = vec![
            waiting(1, KeptAs::Deferred, 0),
            waiting(2, KeptAs::Undecided, 1),
            waiting(3, KeptAs::Undecided, 0),
        ];
        assert_eq!(sliced(mailbox), (vec![1, 2], CommitSharing::Alone, PageRemainder::Remains));
    }

    #[test]
    fn events_before_suspect_go_first() {
        let mailbox = vec![
            waiting(1, KeptAs::Undecided, 0),
            waiting(2, KeptAs::Undecided, 0),
            waiting(3, KeptAs::Undecided, 2),
            waiting(4, KeptAs::Undecided, 0),
        ];
        assert_eq!(sliced(mailbox), (vec![1, 2], CommitSharing::Welcome, PageRemainder::Remains));
    }

    #[test]
    fn innocent_mailbox_is_not_cut() {
        let mailbox = vec![waiting(1, KeptAs::Undecided, 0), waiting(2, KeptAs::Undecided, 0)];
        assert_eq!(sliced(mailbox), (vec![1, 2], CommitSharing::Welcome, PageRemainder::Nothing));
    }
}

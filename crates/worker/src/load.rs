//! Loads a batch of executions and separates those that cannot be decided.
//!
//! States that this worker decoded before come from the cache, and the store is asked only for newer data. An
//! execution whose snapshot or log is unreadable, or whose definition is gone, is paused with the reason; the
//! worker and the rest of the batch continue. An execution whose definition this build cannot use is not
//! paused, because a newer worker may be able to use it: its doorbell is kept for a while and then rung again
//! for other workers. Both kinds can be cancelled, which needs no definition.

use std::sync::Arc;

use millstream_core::action::ErrorClass;
use millstream_core::id::{AcceptNo, IncidentId};
use millstream_core::incident::NewIncident;
use millstream_core::log::{Kept as KeptAs, State, Waiting};
use millstream_core::machine;
use millstream_core::program::Program;
use millstream_rpc::blob;
use millstream_store::StoreError;
use millstream_store::execution_store::{Known, Loaded, LoadedExecution, MailboxLimits, More, Wanted};
use millstream_store::intervention::Pausing;
use tokio::time::Instant;

use crate::bisect::Bisect;
use crate::kept::{End, Visit, Why};
use crate::metrics;
use crate::programs::Unusable;
use crate::worker::Worker;

/// An execution with something to decide.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) at: usize,
    pub(crate) loaded: LoadedExecution,
    pub(crate) state: State,
    pub(crate) by: DecidedBy,
    pub(crate) company: Company,
}

/// The component that decides.
#[derive(Debug, Clone)]
pub(crate) enum DecidedBy {
    Program(Program),
    /// There is no program, and the mailbox needs none: it holds a cancellation, or the execution has ended.
    Closing,
}

/// Whether an execution may share its commit with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    Welcome,
    /// An earlier visit to it was cut short.
    Alone,
}

impl Found {
    /// Index of its visit in the batch.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The event to decide first.
    pub(crate) fn head(&self) -> Option<&Waiting> {
        let mailbox = &self.loaded.mailbox;
        mailbox.iter().find(|event| event.kept == KeptAs::Undecided).or_else(|| mailbox.first())
    }
}

/// The loaded data of one visit, before it is checked.
#[derive(Debug)]
pub(crate) struct Fetched {
    at: usize,
    cached: Option<(AcceptNo, State)>,
    loaded: Result<Loaded, StoreError>,
}

/// Loads the `open` visits and records the outcome of those that end here.
pub(crate) async fn load(
    worker: &Worker,
    visits: &[Visit],
    open: &[usize],
    ends: &mut [Option<End>],
) -> Vec<Found> {
    let fetched = fetch(worker, visits, open).await;
    sort_out(worker, visits, fetched, ends).await
}

/// Reads the `open` visits from the store.
pub(crate) async fn fetch(worker: &Worker, visits: &[Visit], open: &[usize]) -> Vec<Fetched> {
    let cached: Vec<Option<(AcceptNo, State)>> =
        open.iter().map(|at| worker.states.take(&visits[*at].execution)).collect();
    let wanted: Vec<Wanted> = open
        .iter()
        .zip(&cached)
        .map(|(at, cached)| Wanted {
            execution: visits[*at].execution.clone(),
            known: cached.as_ref().map(|(position, state)| Known { position: *position, seq: state.seq }),
        })
        .collect();
    let started = Instant::now();
    let loaded = load_all(worker, &wanted).await;
    ::metrics::histogram!(metrics::LOAD_SECONDS).record(started.elapsed().as_secs_f64());
    let fetched = open.iter().copied().zip(cached).zip(loaded);
    fetched.map(|((at, cached), loaded)| Fetched { at, cached, loaded }).collect()
}

/// Returns the executions with undecided events. The state of a visit that has ended meanwhile (its lock is
/// busy) goes back to the cache.
pub(crate) async fn sort_out(
    worker: &Worker,
    visits: &[Visit],
    fetched: Vec<Fetched>,
    ends: &mut [Option<End>],
) -> Vec<Found> {
    let mut found = Vec::new();
    let mut unreadable = Vec::new();
    for Fetched { at, cached, loaded } in fetched {
        if ends[at].is_some() {
            if let Some((position, state)) = cached {
                worker.states.put(visits[at].execution.clone(), position, state);
            }
            continue;
        }
        match sort(worker, cached.map(|(_, state)| state), loaded).await {
            Sorted::Decide(loaded, state, by) => {
                found.push(Found { at, loaded: *loaded, state, by, company: Company::Welcome });
            }
            Sorted::End(end) => ends[at] = Some(end),
            Sorted::Unreadable(reason) => unreadable.push((at, reason)),
        }
    }
    pause(worker, visits, unreadable, ends).await;
    found
}

enum Sorted {
    Decide(Box<LoadedExecution>, State, DecidedBy),
    End(End),
    Unreadable(String),
}

async fn sort(worker: &Worker, cached: Option<State>, loaded: Result<Loaded, StoreError>) -> Sorted {
    let mut loaded = match loaded {
        Ok(Loaded::Found(loaded)) => loaded,
        Ok(Loaded::Missing) => return Sorted::End(End::Answered),
        Ok(Loaded::Corrupt { reason }) | Err(StoreError::Corrupt(reason)) => {
            return Sorted::Unreadable(reason);
        }
        Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => {
            worker.store_outage.met(&error);
            return Sorted::End(End::Kept(Why::Unavailable));
        }
    };
    let state = match loaded.state.take() {
        Some((mut snapshot, newer)) => {
            if let Some(blob) = loaded.graph.take() {
                match blob::decode(&blob) {
                    Ok(graph) => snapshot.graph = Some(Arc::new(graph)),
                    Err(error) => return Sorted::Unreadable(format!("its graph cannot be read: {error}")),
                }
            }
            newer.iter().fold(snapshot, |state, transition| machine::evolve(Some(state), transition))
        }
        None => match cached {
            Some(state) => state,
            None => return Sorted::Unreadable("the store returned no state".to_owned()),
        },
    };
    if state.seq != loaded.seq {
        return Sorted::Unreadable(format!("its log ends at seq {}, not at {}", state.seq, loaded.seq));
    }
    if loaded.mailbox.iter().all(|event| event.kept == KeptAs::Deferred) {
        worker.states.put(loaded.execution, loaded.position, state);
        return Sorted::End(End::Answered);
    }
    let store = &*worker.deps.stores.definitions;
    match worker.programs.get(store, &loaded.execution.tenant, &loaded.definition).await {
        Ok(Ok(program)) => Sorted::Decide(loaded, state, DecidedBy::Program(program)),
        Ok(Err(_)) if can_close(&state, &loaded) => Sorted::Decide(loaded, state, DecidedBy::Closing),
        Ok(Err(reason @ Unusable::Gone(_))) => Sorted::Unreadable(reason.to_string()),
        Ok(Err(Unusable::Foreign(_))) => Sorted::End(End::Kept(Why::Foreign)),
        Err(error) => {
            worker.store_outage.met(&error);
            Sorted::End(End::Kept(Why::Unavailable))
        }
    }
}

/// Whether the mailbox holds an event that needs no definition.
fn can_close(state: &State, loaded: &LoadedExecution) -> bool {
    let ends = |event: &Waiting| event.kept == KeptAs::Undecided && event.name.is_end();
    state.phase.is_ended() || loaded.mailbox.iter().any(ends)
}

/// One call if the whole batch is readable; otherwise bisected so that one execution fails alone.
async fn load_all(worker: &Worker, wanted: &[Wanted]) -> Vec<Result<Loaded, StoreError>> {
    let limits = MailboxLimits {
        events: worker.options.mailbox.events,
        bytes: worker.options.mailbox.bytes.min(worker.options.visit_bytes / wanted.len().max(1)),
    };
    let mut results = Vec::with_capacity(wanted.len());
    let mut parts = Bisect::of(wanted.len());
    while let Some(range) = parts.next() {
        match worker.deps.stores.executions.load(&wanted[range.clone()], limits).await {
            Ok(loaded) => results.extend(loaded.into_iter().map(Ok)),
            Err(StoreError::Corrupt(_)) if range.len() > 1 => {
                parts.halve(range);
            }
            Err(StoreError::Corrupt(reason)) => results.push(Err(StoreError::Corrupt(reason))),
            Err(StoreError::Unavailable(reason) | StoreError::Contention(reason)) => {
                results.extend(range.map(|_| Err(StoreError::Unavailable(reason.clone()))));
            }
        }
    }
    results
}

async fn pause(
    worker: &Worker,
    visits: &[Visit],
    unreadable: Vec<(usize, String)>,
    ends: &mut [Option<End>],
) {
    if unreadable.is_empty() {
        return;
    }
    let pausing = |(at, reason): &(usize, String)| Pausing {
        execution: visits[*at].execution.clone(),
        incident: NewIncident {
            id: IncidentId(worker.event_id().0),
            class: ErrorClass::Corrupt,
            reason: reason.clone(),
        },
    };
    let pauses: Vec<Pausing> = unreadable.iter().map(pausing).collect();
    let paused = worker.deps.stores.interventions.pause(&pauses, worker.now()).await;
    for ((at, reason), Pausing { execution, .. }) in unreadable.into_iter().zip(&pauses) {
        ends[at] = Some(match &paused {
            Ok(()) => {
                ::metrics::counter!(metrics::PAUSED).increment(1);
                tracing::error!(execution.key = %execution, error = %reason, "execution is unreadable and is now paused");
                End::Answered
            }
            Err(error) => {
                tracing::error!(execution.key = %execution, error = %error, "could not pause an unreadable execution");
                End::Kept(Why::Unavailable)
            }
        });
    }
}

/// Cuts the mailbox to the events of this turn: an event whose earlier decision was cut short goes alone.
pub(crate) fn slice(loaded: &mut LoadedExecution) -> Company {
    let mut undecided = loaded.mailbox.iter().filter(|event| event.kept == KeptAs::Undecided);
    let Some(head) = undecided.next() else { return Company::Welcome };
    let (take, company) = if head.attempts > 0 {
        (1, Company::Alone)
    } else {
        (1 + undecided.take_while(|event| event.attempts == 0).count(), Company::Welcome)
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
        loaded.more = More::Remains;
    }
    company
}

#[cfg(test)]
mod tests {
    use millstream_core::id::{DefinitionRef, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId};
    use millstream_core::log::Origin;
    use millstream_core::raw::RawJson;
    use millstream_core::status::PauseState;
    use millstream_core::time::Timestamp;

    use super::*;

    fn waiting(number: i64, kept: KeptAs, attempts: i32) -> Waiting {
        Waiting {
            event_id: EventId(uuid::Uuid::from_u128(number as u128)),
            accept_no: AcceptNo(number),
            name: Name::parse("e").unwrap(),
            payload: RawJson::null(),
            accepted_at: Timestamp::EPOCH,
            origin: Origin::Posted,
            kept,
            attempts,
            traceparent: None,
        }
    }

    fn sliced(mailbox: Vec<Waiting>) -> (Vec<i64>, Company, More) {
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
            more: More::Nothing,
            graph: None,
        };
        let company = slice(&mut loaded);
        (loaded.mailbox.iter().map(|event| event.accept_no.0).collect(), company, loaded.more)
    }

    #[test]
    fn an_event_that_was_cut_short_goes_alone_with_what_was_deferred() {
        let mailbox = vec![
            waiting(1, KeptAs::Deferred, 0),
            waiting(2, KeptAs::Undecided, 1),
            waiting(3, KeptAs::Undecided, 0),
        ];
        assert_eq!(sliced(mailbox), (vec![1, 2], Company::Alone, More::Remains));
    }

    #[test]
    fn what_stands_before_it_goes_without_it() {
        let mailbox = vec![
            waiting(1, KeptAs::Undecided, 0),
            waiting(2, KeptAs::Undecided, 0),
            waiting(3, KeptAs::Undecided, 2),
            waiting(4, KeptAs::Undecided, 0),
        ];
        assert_eq!(sliced(mailbox), (vec![1, 2], Company::Welcome, More::Remains));
    }

    #[test]
    fn an_innocent_mailbox_is_left_whole() {
        let mailbox = vec![waiting(1, KeptAs::Undecided, 0), waiting(2, KeptAs::Undecided, 0)];
        assert_eq!(sliced(mailbox), (vec![1, 2], Company::Welcome, More::Nothing));
    }
}

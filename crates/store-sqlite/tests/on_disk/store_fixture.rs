//! A store on a temporary file, and short helpers to fill it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{
    DefinitionRef, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId, WorkerId,
};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::action_store::FailureHandling;
use millstream_store::event_log::{
    AppendRequest, Appended, EventLog, EventSubmission, ExecutionStart, SignalSubmission,
};
use millstream_store::execution_store::{
    CommitVerdict, DecidedEvent, EventVerdict, ExecutionCommit, ExecutionStore, LeaseGrant, LoadRequest,
    LoadVerdict, MailboxLimits, NewAction, OpenActions, SnapshotWrite,
};
use millstream_store_sqlite::{SqliteOptions, SqliteStore};
use millstream_workflow::lease_policy::LeasePolicy;
use millstream_workflow::log::{
    AppliedEvent, EventOrigin, FORMAT, StateEntry, Transition, TransitionDecision,
};
use millstream_workflow::machine::evolve;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);
pub(crate) const TTL: Duration = Duration::from_secs(15);

/// Leases of the engine's own queue.
pub(crate) fn grant(slots: usize) -> LeaseGrant {
    LeaseGrant { slots, ttl: TTL, queues: [ActionQueue::engine_for_all()].into() }
}

/// A directory with a migrated store in it.
pub(crate) struct SqliteDesk {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) directory: tempfile::TempDir,
}

impl SqliteDesk {
    pub(crate) async fn fresh() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory.path().join("millstream.db")).await;
        store.migrate().await.unwrap();
        Self { store, directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("millstream.db")
    }

    pub(crate) async fn reopened(self) -> Self {
        self.store.close().await;
        let store = open(&self.path()).await;
        Self { store, directory: self.directory }
    }

    /// A second connection to the file, like a person's shell.
    pub(crate) fn shell(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }
}

pub(crate) async fn open(path: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(path.to_str().unwrap(), SqliteOptions::default()).await.unwrap()
}

pub(crate) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(crate) fn raw(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

pub(crate) fn worker() -> WorkerId {
    WorkerId::parse("host-1-a").unwrap()
}

pub(crate) fn execution(id: &str) -> ExecutionKey {
    ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(id).unwrap() }
}

pub(crate) fn event(key: &ExecutionKey, payload: &str) -> EventSubmission {
    EventSubmission {
        event_id: EventId(uuid::Uuid::now_v7()),
        execution: key.clone(),
        name: name("pay"),
        payload: raw(payload),
        origin: EventOrigin::Posted,
        idempotency: None,
        actor: None,
        traceparent: None,
    }
}

pub(crate) fn signal(correlation: &str, payload: &str) -> SignalSubmission {
    SignalSubmission {
        event_id: EventId(uuid::Uuid::now_v7()),
        tenant: TenantId::default_tenant(),
        correlation: correlation.to_owned(),
        definition: None,
        name: name("paid"),
        payload: raw(payload),
        idempotency: None,
        actor: None,
        traceparent: None,
        expires_at: NOW.plus(Duration::from_secs(3600)),
    }
}

pub(crate) fn start(key: &ExecutionKey, input: &str, phase: ExecutionPhase) -> AppendRequest {
    AppendRequest::Start(Box::new(new_execution(key, input, phase, None)))
}

/// An execution with this correlation.
pub(crate) fn correlated(key: &ExecutionKey, correlation: &str) -> AppendRequest {
    AppendRequest::Start(Box::new(new_execution(
        key,
        "{}",
        ExecutionPhase::Active,
        Some(correlation.to_owned()),
    )))
}

fn new_execution(
    key: &ExecutionKey,
    input: &str,
    phase: ExecutionPhase,
    correlation: Option<String>,
) -> ExecutionStart {
    let start = EventSubmission { name: Name::start_event(), ..event(key, input) };
    let transition = Transition {
        seq: Seq::FIRST,
        event_id: start.event_id,
        name: Name::start_event(),
        at: NOW,
        decision: TransitionDecision {
            format: FORMAT,
            branch: 0,
            from: None,
            to: name("received"),
            entered: StateEntry::Entered,
            set: BTreeMap::from([("input".to_owned(), raw(input))]),
            phase,
            reason: None,
            timers: Vec::new(),
            actions: Vec::new(),
            parent: None,
            correlation,
            graph: None,
        },
    };
    let state = evolve(None, &transition);
    ExecutionStart {
        key: key.clone(),
        definition: DefinitionRef { name: name("order"), version: 1 },
        input_hash: [7; 32],
        start,
        applied: AppliedEvent { transition, actions: Vec::new() },
        state,
        events: Vec::new(),
        graph: None,
    }
}

pub(crate) async fn append(store: &SqliteStore, batch: &[AppendRequest]) -> Vec<i64> {
    let verdicts = store.append(batch, NOW).await.unwrap();
    let number = |verdict: &Appended| match verdict {
        Appended::Accepted { accept_no } => accept_no.0,
        other @ (Appended::Repeat { .. }
        | Appended::Delivered { .. }
        | Appended::Buffered
        | Appended::Ambiguous { .. }
        | Appended::Mismatch
        | Appended::NoExecution) => panic!("{other:?}"),
    };
    verdicts.iter().map(number).collect()
}

pub(crate) async fn load(store: &SqliteStore, keys: &[ExecutionKey]) -> Vec<LoadVerdict> {
    let wanted: Vec<_> = keys.iter().map(|key| LoadRequest { execution: key.clone(), known: None }).collect();
    store.load_executions(&wanted, MailboxLimits::default()).await.unwrap()
}

/// Apply the only event in the mailbox, with one ready action.
pub(crate) async fn apply(store: &SqliteStore, key: &ExecutionKey, input: &str) -> CommitVerdict {
    let loaded = load(store, std::slice::from_ref(key)).await.remove(0);
    let LoadVerdict::Found(loaded) = loaded else { panic!("{loaded:?}") };
    let event = &loaded.mailbox[0];
    let (state, log) = loaded.state.clone().unwrap();
    let state = log.iter().fold(state, |state, one| evolve(Some(state), one));
    let transition = Transition {
        seq: loaded.seq.next(),
        event_id: event.event_id,
        name: event.name.clone(),
        at: NOW,
        decision: TransitionDecision {
            format: FORMAT,
            branch: 0,
            from: Some(state.state.clone()),
            to: name("paid"),
            entered: StateEntry::Entered,
            set: BTreeMap::from([("event".to_owned(), event.payload.clone())]),
            phase: ExecutionPhase::Active,
            reason: None,
            timers: Vec::new(),
            actions: vec![name("charge")],
            parent: None,
            correlation: None,
            graph: None,
        },
    };
    let action = NewAction {
        key: millstream_model::id::ActionKey {
            execution: key.clone(),
            seq: transition.seq,
            action: name("charge"),
        },
        event_id: event.event_id,
        traceparent: None,
        ordinal: 0,
        needs: Vec::new(),
        status: ActionStatus::Ready,
        terms: LeasePolicy::engine_for_all(),
        undoes: None,
        input: Some(raw(input)),
        scope: None,
        result: None,
        error: None,
        handling: FailureHandling::Unhandled,
        incident: None,
        company: millstream_store::execution_store::ActionRelation::Together,
    };
    let commit = ExecutionCommit {
        execution: key.clone(),
        definition: loaded.definition.clone(),
        expected: loaded.seq,
        state: evolve(Some(state.clone()), &transition),
        snapshot: SnapshotWrite::Write,
        decided: vec![DecidedEvent {
            event_id: event.event_id,
            accept_no: event.accept_no,
            verdict: EventVerdict::Applied {
                seq: transition.seq,
                from: Some(state.state),
                to: name("paid"),
                status: EventStatus::Processing,
                error: None,
            },
        }],
        transitions: vec![transition],
        timers: Vec::new(),
        cancelled_timers: Vec::new(),
        actions: vec![action],
        emitted: Vec::new(),
        open_actions: OpenActions::Keep,
        graph: None,
    };
    store.commit_executions(&worker(), &[commit], &grant(10), NOW).await.unwrap().remove(0)
}

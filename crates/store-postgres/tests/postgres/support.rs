//! A store on a fresh database, and minimal valid values.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{
    AcceptNo, ActionKey, DefinitionRef, EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId, WorkerId,
};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionPhase};
use millstream_model::time::Timestamp;
use millstream_store::action_store::FailureHandling;
use millstream_store::event_log::{
    AppendRequest, Appended, EventLog, EventSubmission, ExecutionStart, IdempotencyKey,
};
use millstream_store::execution_store::{
    CommitVerdict, DecidedEvent, EventVerdict, ExecutionCommit, ExecutionStore, LeaseGrant, NewAction,
    OpenActions, SnapshotWrite,
};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::views::{EventViews, ExecutionViews};
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use millstream_testkit::eventually;
use millstream_testkit::postgres::{self, TestDatabase};
use millstream_workflow::lease_policy::LeasePolicy;
use millstream_workflow::log::{
    AppliedEvent, EventOrigin, ExecutionState, FORMAT, StateEntry, Transition, TransitionDecision,
};
use millstream_workflow::machine::evolve;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

pub(crate) struct PostgresFixture {
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) database: TestDatabase,
}

impl PostgresFixture {
    pub(crate) async fn fresh() -> Self {
        let database = postgres::private_database().await;
        let store = PostgresStore::connect(&database.url, PostgresOptions::default()).await.unwrap();
        store.migrate().await.unwrap();
        Self { store, database }
    }

    /// Start executions in one batch.
    pub(crate) async fn start(&self, count: usize, prefix: &str) -> Vec<ExecutionKey> {
        let now = self.store.ping().await.unwrap();
        let keys: Vec<_> = (0..count).map(|n| key(&format!("{prefix}-{n}"))).collect();
        let batch: Vec<_> = keys.iter().map(|key| AppendRequest::Start(Box::new(start(key, now)))).collect();
        for appended in self.store.append(&batch, now).await.unwrap() {
            assert!(matches!(appended, Appended::Accepted { .. }), "{appended:?}");
        }
        keys
    }

    pub(crate) async fn seq(&self, key: &ExecutionKey) -> i64 {
        let views = self.store.find_executions(std::slice::from_ref(key)).await.unwrap();
        views[0].as_ref().unwrap().state.seq.0
    }

    /// PostgreSQL counts deadlocks per database; sessions report what they saw when they end.
    pub(crate) async fn assert_no_deadlock(&self) {
        self.store.close().await;
        let mut connection = PgConnection::connect(&self.database.url).await.unwrap();
        const COUNT: &str = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        let deadlocks: i64 = sqlx::query_scalar(COUNT).fetch_one(&mut connection).await.unwrap();
        assert_eq!(deadlocks, 0, "locks were taken in different orders");
    }
}

pub(crate) fn key(id: &str) -> ExecutionKey {
    ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(id).unwrap() }
}

pub(crate) fn worker() -> WorkerId {
    WorkerId::parse("test-1-abc").unwrap()
}

pub(crate) fn raw(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

pub(crate) fn grant(slots: usize) -> LeaseGrant {
    LeaseGrant { slots, ttl: Duration::from_secs(30), queues: [ActionQueue::engine_for_all()].into() }
}

pub(crate) fn event(key: &ExecutionKey, name: &str) -> EventSubmission {
    EventSubmission {
        event_id: EventId(Uuid::now_v7()),
        execution: key.clone(),
        name: Name::parse(name).unwrap(),
        payload: RawJson::null(),
        origin: EventOrigin::Posted,
        idempotency: None,
        actor: None,
        traceparent: None,
    }
}

pub(crate) fn keyed(key: &ExecutionKey, idempotency: &str) -> EventSubmission {
    let idempotency = IdempotencyKey { key: idempotency.to_owned(), request_hash: [7; 32] };
    EventSubmission { idempotency: Some(idempotency), ..event(key, "go") }
}

fn transition(seq: Seq, event_id: EventId, from: Option<&str>, to: &str, at: Timestamp) -> Transition {
    let name = |text: &str| Name::parse(text).unwrap();
    Transition {
        seq,
        event_id,
        name: name("go"),
        at,
        decision: TransitionDecision {
            format: FORMAT,
            branch: 0,
            from: from.map(name),
            to: name(to),
            entered: StateEntry::Entered,
            set: Default::default(),
            phase: ExecutionPhase::Active,
            reason: None,
            timers: Vec::new(),
            actions: Vec::new(),
            parent: None,
            correlation: None,
            graph: None,
        },
    }
}

fn order() -> DefinitionRef {
    DefinitionRef { name: Name::parse("order").unwrap(), version: 1 }
}

pub(crate) fn start(key: &ExecutionKey, now: Timestamp) -> ExecutionStart {
    let start = event(key, "millstream.start");
    let transition = transition(Seq::FIRST, start.event_id, None, "open", now);
    ExecutionStart {
        key: key.clone(),
        definition: order(),
        input_hash: [1; 32],
        state: evolve(None, &transition),
        applied: AppliedEvent { transition, actions: Vec::new() },
        start,
        events: Vec::new(),
        graph: None,
    }
}

/// The second transition of an execution, with ready actions.
pub(crate) fn act(
    key: &ExecutionKey,
    event_id: EventId,
    actions: &[&str],
    now: Timestamp,
) -> ExecutionCommit {
    let first: ExecutionState = evolve(None, &transition(Seq::FIRST, event_id, None, "open", now));
    let second = transition(Seq(2), event_id, Some("open"), "working", now);
    let action = |(name, ordinal): (&&str, i32)| NewAction {
        key: ActionKey { execution: key.clone(), seq: Seq(2), action: Name::parse(name).unwrap() },
        event_id,
        traceparent: None,
        ordinal,
        needs: Vec::new(),
        status: ActionStatus::Ready,
        input: Some(raw("{}")),
        scope: None,
        result: None,
        error: None,
        handling: FailureHandling::Unhandled,
        terms: LeasePolicy::engine_for_all(),
        undoes: None,
        incident: None,
        company: millstream_store::execution_store::ActionRelation::Together,
    };
    ExecutionCommit {
        execution: key.clone(),
        definition: order(),
        expected: Seq::FIRST,
        state: evolve(Some(first), &second),
        snapshot: SnapshotWrite::Write,
        // See `PostgresFixture::placed`.
        decided: vec![DecidedEvent {
            event_id,
            accept_no: AcceptNo(0),
            verdict: EventVerdict::Applied {
                seq: Seq(2),
                from: second.decision.from.clone(),
                to: second.decision.to.clone(),
                status: EventStatus::Processing,
                error: None,
            },
        }],
        transitions: vec![second],
        timers: Vec::new(),
        cancelled_timers: Vec::new(),
        actions: actions.iter().zip(0..).map(action).collect(),
        emitted: Vec::new(),
        open_actions: OpenActions::Keep,
        graph: None,
    }
}

/// The second transition of an execution, which ends it at `at`.
pub(crate) fn end(key: &ExecutionKey, event_id: EventId, at: Timestamp) -> ExecutionCommit {
    let mut commit = act(key, event_id, &[], at);
    commit.transitions[0].decision.phase = ExecutionPhase::Completed;
    commit.state.phase = ExecutionPhase::Completed;
    if let EventVerdict::Applied { status, .. } = &mut commit.decided[0].verdict {
        *status = EventStatus::Completed;
    }
    commit
}

impl PostgresFixture {
    /// Start executions and end them at `at`.
    pub(crate) async fn ended(&self, count: usize, prefix: &str, at: Timestamp) -> Vec<ExecutionKey> {
        let keys = self.start(count, prefix).await;
        let posts: Vec<_> = keys.iter().map(|key| event(key, "close")).collect();
        let ends: Vec<_> = keys.iter().zip(&posts).map(|(key, post)| end(key, post.event_id, at)).collect();
        let posts: Vec<_> = posts.into_iter().map(AppendRequest::Event).collect();
        self.store.append(&posts, at).await.unwrap();
        let ends = self.placed(ends).await;
        for committed in self.store.commit_executions(&worker(), &ends, &grant(0), at).await.unwrap() {
            assert!(matches!(committed, CommitVerdict::Done { .. }), "{committed:?}");
        }
        keys
    }

    /// Fills in the stored mailbox positions of the commits' events, as a worker that loaded them would know
    /// them.
    pub(crate) async fn placed(&self, mut batch: Vec<ExecutionCommit>) -> Vec<ExecutionCommit> {
        let id = |commit: &ExecutionCommit| (commit.execution.tenant.clone(), commit.decided[0].event_id);
        let ids: Vec<_> = batch.iter().map(id).collect();
        let views = self.store.find_events(&ids).await.unwrap();
        for (commit, view) in batch.iter_mut().zip(views) {
            commit.decided[0].accept_no = view.unwrap().accept_no;
        }
        batch
    }
}

pub(crate) async fn rows_read(fixture: &PostgresFixture) -> i64 {
    rows_read_beside(fixture, 0).await
}

/// Rows read in total. Sessions report their counts when they end, which the server does a while after the
/// client has closed them: read when no more than `open` are left.
pub(crate) async fn rows_read_beside(fixture: &PostgresFixture, open: i64) -> i64 {
    const READ: &str = "
SELECT (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes)::bigint
     + (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables)::bigint";
    const OTHERS: &str = "
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    eventually(Duration::from_secs(20), || async {
        let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
        let others: i64 = sqlx::query_scalar(OTHERS).fetch_one(&mut connection).await.unwrap();
        let read: i64 = sqlx::query_scalar(READ).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        if others <= open { Ok(read) } else { Err(format!("{others} sessions are open")) }
    })
    .await
}

/// The updates of a table and how many of them stayed within their page, once there are `expected`. A
/// connection reports its counts when its process ends, which may be after it was closed here.
pub(crate) async fn counted_updates(url: &str, table: &str, expected: i64) -> (i64, i64) {
    const UPDATES: &str = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1";
    eventually(Duration::from_secs(60), || async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let seen: (i64, i64) = sqlx::query_as(UPDATES).bind(table).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        if seen.0 >= expected { Ok(seen) } else { Err(seen) }
    })
    .await
}

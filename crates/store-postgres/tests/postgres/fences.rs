//! Fences that are lost while a statement waits for a lock: nothing is written for the loser, and the statement
//! does not fail. The rest of its batch is written once.

use std::time::Duration;

use millstream_devices::claim::{RunSpec, create_run};
use millstream_model::id::{ExecutionKey, Name, RunId, RunKey, TenantId};
use millstream_store::event_log::{AppendRequest, EventLog};
use millstream_store::execution_store::{CommitVerdict, ExecutionStore};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::run_store::{ExpectedVersion, RunStore, RunUnit, RunVerdict, RunWrite};
use millstream_testkit::eventually;
use sqlx::{Connection, PgConnection};

use crate::support::{self, PostgresFixture, event, grant, raw, worker};

/// A transaction of another client, which holds its locks until it is committed.
struct ConcurrentTransaction(PgConnection);

impl ConcurrentTransaction {
    async fn begin(fixture: &PostgresFixture, statements: &[&'static str]) -> Self {
        let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
        sqlx::raw_sql("BEGIN").execute(&mut connection).await.unwrap();
        for statement in statements {
            sqlx::raw_sql(*statement).execute(&mut connection).await.unwrap();
        }
        Self(connection)
    }

    /// Commits once the store waits for this transaction.
    async fn commit_when_awaited(mut self, fixture: &PostgresFixture) {
        const WAITING: &str = "
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND $1 = ''";
        eventually(Duration::from_secs(4), || async {
            if count(fixture, WAITING, "").await > 0 { Ok(()) } else { Err("the store does not wait") }
        })
        .await;
        sqlx::raw_sql("COMMIT").execute(&mut self.0).await.unwrap();
    }
}

async fn count(fixture: &PostgresFixture, sql: &'static str, id: &str) -> i64 {
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    sqlx::query_scalar(sql).bind(id).fetch_one(&mut connection).await.unwrap()
}

const LOCK: &str = "SELECT FROM executions WHERE execution_id = 'x-1' FOR NO KEY UPDATE";
const TRANSITIONS: &str = "SELECT count(*) FROM transitions WHERE execution_id = $1 AND seq = 2";
const ACTIONS: &str = "SELECT count(*) FROM actions WHERE execution_id = $1";
const LETTERS: &str = "SELECT count(*) FROM mailbox WHERE execution_id = $1";
const ROLLBACKS: &str =
    "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database() AND $1 = ''";

/// Commits events of three executions while a concurrent transaction holds the second one. Returns what became of the
/// second commit.
async fn commit_against(statements: &[&'static str]) -> (PostgresFixture, CommitVerdict) {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let now = store.ping().await.unwrap();
    let keys: Vec<ExecutionKey> = fixture.start(3, "x").await;
    assert_eq!(keys[1].execution.as_str(), "x-1");
    let posts: Vec<_> = keys.iter().map(|key| event(key, "go")).collect();
    let commits =
        keys.iter().zip(&posts).map(|(key, post)| support::act(key, post.event_id, &["a"], now)).collect();
    store.append(&posts.into_iter().map(AppendRequest::Event).collect::<Vec<_>>(), now).await.unwrap();
    let commits = fixture.placed(commits).await;
    let concurrent = ConcurrentTransaction::begin(&fixture, statements).await;
    let (worker, grant) = (worker(), grant(3));
    let (committed, ()) = tokio::join!(
        store.commit_executions(&worker, &commits, &grant, now),
        concurrent.commit_when_awaited(&fixture)
    );
    let mut committed = committed.unwrap();
    for (key, place) in [(&keys[0], 0), (&keys[2], 2)] {
        let CommitVerdict::Done { leased, .. } = &committed[place] else { panic!("{committed:?}") };
        assert_eq!(leased.len(), 1);
        let id = key.execution.as_str();
        assert_eq!(fixture.seq(key).await, 2);
        assert_eq!(count(&fixture, TRANSITIONS, id).await, 1);
        assert_eq!(count(&fixture, ACTIONS, id).await, 1);
        assert_eq!(count(&fixture, LETTERS, id).await, 0);
    }
    store.close().await;
    assert_eq!(count(&fixture, ROLLBACKS, "").await, 0, "a statement failed");
    (fixture, committed.remove(1))
}

async fn assert_nothing_written(fixture: &PostgresFixture) {
    assert_eq!(count(fixture, TRANSITIONS, "x-1").await, 0);
    assert_eq!(count(fixture, ACTIONS, "x-1").await, 0);
}

#[tokio::test]
async fn commit_that_loses_its_seq_writes_nothing() {
    let (fixture, verdict) =
        commit_against(&[LOCK, "UPDATE executions SET seq = 2 WHERE execution_id = 'x-1'"]).await;
    assert!(matches!(verdict, CommitVerdict::Conflict), "{verdict:?}");
    assert_nothing_written(&fixture).await;
    assert_eq!(count(&fixture, LETTERS, "x-1").await, 1);
}

#[tokio::test]
async fn commit_that_loses_its_event_writes_nothing() {
    let (fixture, verdict) = commit_against(&[LOCK, "DELETE FROM mailbox WHERE execution_id = 'x-1'"]).await;
    assert!(matches!(verdict, CommitVerdict::Conflict), "{verdict:?}");
    assert_nothing_written(&fixture).await;
    const SEQ: &str = "SELECT seq FROM executions WHERE execution_id = $1";
    assert_eq!(count(&fixture, SEQ, "x-1").await, 1);
}

#[tokio::test]
async fn commit_of_paused_execution_writes_nothing() {
    let (fixture, verdict) =
        commit_against(&[LOCK, "UPDATE executions SET paused_reason = 'p' WHERE execution_id = 'x-1'"]).await;
    assert!(matches!(verdict, CommitVerdict::Conflict), "{verdict:?}");
    assert_nothing_written(&fixture).await;
    assert_eq!(count(&fixture, LETTERS, "x-1").await, 1);
}

/// The rows were replaced, and the fence holds.
#[tokio::test]
async fn commit_survives_changes_beside_its_fence() {
    for change in [
        "UPDATE executions SET updated_at = updated_at WHERE execution_id = 'x-1'",
        "UPDATE mailbox SET deferred = TRUE WHERE execution_id = 'x-1'",
    ] {
        let (fixture, verdict) = commit_against(&[LOCK, change]).await;
        assert!(matches!(verdict, CommitVerdict::Done { .. }), "{verdict:?}");
        assert_eq!(count(&fixture, TRANSITIONS, "x-1").await, 1);
        assert_eq!(count(&fixture, ACTIONS, "x-1").await, 1);
        assert_eq!(count(&fixture, LETTERS, "x-1").await, 0);
    }
}

fn run_key(id: &str) -> RunKey {
    RunKey { tenant: TenantId::default_tenant(), run: RunId::parse(id).unwrap() }
}

#[tokio::test]
async fn run_created_concurrently_is_written_once() {
    const CREATE: &str = "
INSERT INTO runs (tenant, run_id, kind, status, version, body, updated_at)
SELECT tenant, 'r1', kind, status, 7, body, updated_at FROM runs WHERE run_id = 'seed'";
    const SEATS: &str = "SELECT count(*) FROM run_seats WHERE run_id = $1";
    const LOG: &str = "SELECT count(*) FROM run_log WHERE run_id = $1";
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let now = store.ping().await.unwrap();
    let create = |id: &str| -> RunUnit {
        let spec = RunSpec::with_defaults(Name::parse("render").unwrap(), raw("{}"));
        let change = create_run(spec, None, now);
        RunWrite {
            key: run_key(id),
            expected: ExpectedVersion::Nothing,
            run: change.run,
            log: change.log,
            unheard: Vec::new(),
            settlement: None,
        }
        .into()
    };
    store.commit_runs(&[create("seed")], now).await.unwrap();
    let concurrent = ConcurrentTransaction::begin(&fixture, &[CREATE]).await;
    let units = ["r0", "r1", "r2"].map(create);
    let (committed, ()) =
        tokio::join!(store.commit_runs(&units, now), concurrent.commit_when_awaited(&fixture));
    let verdicts = committed.unwrap().verdicts;
    let [RunVerdict::Done { .. }, RunVerdict::Conflict { key, current }, RunVerdict::Done { .. }] =
        &verdicts[..]
    else {
        panic!("{verdicts:?}")
    };
    assert_eq!(*key, run_key("r1"));
    assert_eq!(current.as_ref().unwrap().version, 7);
    let seats = count(&fixture, SEATS, "seed").await;
    let log = count(&fixture, LOG, "seed").await;
    assert!(seats > 0 && log > 0);
    for (id, times) in [("r0", 1), ("r1", 0), ("r2", 1)] {
        assert_eq!(count(&fixture, SEATS, id).await, seats * times, "{id}");
        assert_eq!(count(&fixture, LOG, id).await, log * times, "{id}");
    }
}

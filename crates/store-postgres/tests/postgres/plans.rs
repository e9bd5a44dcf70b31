//! Work per event grows neither with history nor with the backlog of others, whatever the statistics say.
//!
//! Statistics are always from before the last burst; here there are none at all. A plan that uses the wrong
//! index gives the right answer and is detected only by counting the rows that it read.

use std::time::Duration;

use crate::support::{self, PostgresFixture, event, grant, raw, rows_read, rows_read_beside, worker};
use millstream_model::id::{EventId, ExecutionKey, Seq};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{ActionStore, LeaseHeartbeat, LeasePulse, SettleOutcome, Settlement};
use millstream_store::event_log::{AppendRequest, EventLog};
use millstream_store::execution_store::{
    CommitVerdict, ExecutionStore, LoadRequest, LoadVerdict, LoadedExecution, MailboxLimits,
};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::housekeeping::RetentionCutoffs;
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::{Connection, PgConnection};

const EXECUTIONS: usize = 200;
const BACKLOG: usize = 100;
const LIMITS: MailboxLimits = MailboxLimits { events: 10, bytes: 1024 };

#[tokio::test]
async fn visit_reads_only_its_own_mailbox() {
    let fixture = PostgresFixture::fresh().await;
    execute(&fixture, "ALTER TABLE events SET (autovacuum_enabled = false)").await;
    execute(&fixture, "ALTER TABLE actions SET (autovacuum_enabled = false)").await;
    let keys = fixture.start(EXECUTIONS, "busy").await;
    let now = fixture.store.ping().await.unwrap();
    for _ in 0..BACKLOG {
        let batch: Vec<_> = keys.iter().map(|key| AppendRequest::Event(event(key, "go"))).collect();
        fixture.store.append(&batch, now).await.unwrap();
    }
    fixture.store.close().await;

    let before = rows_read(&fixture).await;
    let store = PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
    for key in &keys[..20] {
        let loaded = load(&store, key).await;
        let first: EventId = loaded.mailbox[0].event_id;
        let mut commit = support::act(key, first, &["a"], now);
        commit.decided[0].accept_no = loaded.mailbox[0].accept_no;
        let mut committed = store.commit_executions(&worker(), &[commit], &grant(1), now).await.unwrap();
        let CommitVerdict::Done { leased, .. } = committed.remove(0) else { panic!("not committed") };
        let beat = LeaseHeartbeat::from(leased[0].lease.clone());
        let pulse = store.renew_leases(&[beat], &worker(), &grant(1), now).await.unwrap().remove(0);
        assert!(matches!(pulse, LeasePulse::Held { .. }), "{pulse:?}");
        let settlement = Settlement {
            lease: leased[0].lease.clone(),
            event_id: first,
            outcome: SettleOutcome::Succeeded { result: raw("1"), emit: None },
        };
        store.settle_actions(&worker(), &[settlement], &grant(0), now).await.unwrap();
        assert_eq!(load(&store, key).await.seq, Seq(2));
    }
    store.close().await;
    let read = rows_read(&fixture).await - before;
    let everything = i64::try_from(EXECUTIONS * BACKLOG).unwrap();
    assert!(read < everything / 10, "20 visits read {read} index entries, all mailboxes hold {everything}");
}

/// A mailbox is usually empty when it is analysed and when connections make their plans. They keep these
/// plans while it fills up.
#[tokio::test]
async fn plans_from_empty_tables_stay_cheap() {
    let fixture = PostgresFixture::fresh().await;
    let now = fixture.store.ping().await.unwrap();
    let one = PostgresOptions { max_connections: 1, ..PostgresOptions::default() };
    let store = PostgresStore::connect(&fixture.database.url, one).await.unwrap();
    execute(&fixture, "ANALYZE").await;
    let first = fixture.start(1, "first").await;
    execute(&fixture, "ANALYZE").await;
    // More often than the server runs a custom plan before it settles for a generic one.
    for _ in 0..8 {
        store.append(&[AppendRequest::Event(event(&first[0], "go"))], now).await.unwrap();
        assert_eq!(visit(&store, &first[0], now).await, PlanVisit::Lost);
    }

    let keys = fixture.start(EXECUTIONS, "busy").await;
    for _ in 0..BACKLOG {
        let batch: Vec<_> = keys.iter().map(|key| AppendRequest::Event(event(key, "go"))).collect();
        fixture.store.append(&batch, now).await.unwrap();
    }
    fixture.store.close().await;
    let before = rows_read_beside(&fixture, 1).await;
    for key in &keys[..20] {
        assert_eq!(visit(&store, key, now).await, PlanVisit::Done);
        store.append(&[AppendRequest::Event(event(key, "go"))], now).await.unwrap();
    }
    store.close().await;
    let read = rows_read(&fixture).await - before;
    assert!(read < 2_000, "20 visits with plans from before the burst read {read} index entries");
}

#[derive(Debug, PartialEq, Eq)]
enum PlanVisit {
    /// The commit expects another seq than the stored one.
    Lost,
    Done,
}

/// Load, commit with one action, settle it.
async fn visit(store: &PostgresStore, key: &ExecutionKey, now: Timestamp) -> PlanVisit {
    let loaded = load(store, key).await;
    let first = &loaded.mailbox[0];
    let mut commit = support::act(key, first.event_id, &["a"], now);
    commit.decided[0].accept_no = first.accept_no;
    if key.execution.as_str().starts_with("first") {
        commit.expected = Seq(99);
    }
    let mut committed = store.commit_executions(&worker(), &[commit], &grant(1), now).await.unwrap();
    let CommitVerdict::Done { leased, .. } = committed.remove(0) else { return PlanVisit::Lost };
    let settlement = Settlement {
        lease: leased[0].lease.clone(),
        event_id: first.event_id,
        outcome: SettleOutcome::Succeeded { result: raw("1"), emit: None },
    };
    store.settle_actions(&worker(), &[settlement], &grant(0), now).await.unwrap();
    PlanVisit::Done
}

#[tokio::test]
async fn commits_without_statistics_use_key_lookups() {
    // A near tie between two indexes that the size of the tables decides: more than one try.
    for _ in 0..3 {
        let fixture = PostgresFixture::fresh().await;
        let now = fixture.store.ping().await.unwrap();
        for count in [3, 2_000] {
            fixture.ended(count, &format!("e{count}"), now).await;
        }
        fixture.store.close().await;
        let read = rows_read(&fixture).await;
        assert!(read < 60_000, "deciding 2,003 events read {read} index entries");
    }
}

#[tokio::test]
async fn purge_reads_only_old_executions() {
    let fixture = PostgresFixture::fresh().await;
    execute(&fixture, "ALTER TABLE executions SET (autovacuum_enabled = false)").await;
    let now = fixture.store.ping().await.unwrap();
    let hour = Duration::from_secs(3600);
    fixture.ended(3, "old", now.minus(hour * 2)).await;
    fixture.ended(2_000, "young", now).await;
    fixture.store.close().await;
    let before = rows_read(&fixture).await;
    let store = PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
    assert_eq!(store.purge_executions(RetentionCutoffs::uniform(now.minus(hour)), 100).await.unwrap(), 3);
    store.close().await;
    let read = rows_read(&fixture).await - before;
    assert!(read < 500, "a purge of 3 among 2,003 ended executions read {read} index entries");
}

async fn load(store: &PostgresStore, key: &ExecutionKey) -> LoadedExecution {
    let wanted = [LoadRequest { execution: key.clone(), known: None }];
    match store.load_executions(&wanted, LIMITS).await.unwrap().remove(0) {
        LoadVerdict::Found(found) => *found,
        other @ (LoadVerdict::Missing | LoadVerdict::Corrupt { .. }) => panic!("{other:?}"),
    }
}

async fn execute(fixture: &PostgresFixture, sql: &'static str) {
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    sqlx::query(sql).execute(&mut connection).await.unwrap();
}

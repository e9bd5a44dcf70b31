//! A database written by an older build: its rows are kept, and work continues.

use crate::support::{self, PostgresFixture, event, grant, key, raw, worker};
use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{Epoch, EventId, Seq};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{ActionStore, SettleOutcome, SettleVerdict, Settlement};
use millstream_store::execution_store::{ExecutionStore, LoadRequest, LoadVerdict, MailboxLimits};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::intervention::Interventions;
use millstream_store::schema::{Release, SchemaFit};
use millstream_store::timer_store::TimerStore;
use millstream_store::views::{EventViews, ExecutionViews};
use millstream_store::worker_store::WorkerStore;
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{Connection, PgConnection, SqlStr};
use uuid::Uuid;

const SPINE: &str = include_str!("../../migrations/0001_spine.sql");
const THEN: i64 = 1_700_000_000_000;

/// An execution in the schema of 0001, at seq 2 with three actions: one settled, one ready, one that waits
/// for both.
async fn old_rows(connection: &mut PgConnection, acted: EventId, waiting: EventId) {
    let key = key("old");
    let at = Timestamp::from_millis(THEN);
    let commit = support::act(&key, acted, &["done", "next", "last"], at);
    let (tenant, execution) = (key.tenant.as_str(), key.execution.as_str());
    const EXECUTION: &str = "
INSERT INTO executions (tenant, execution_id, definition, version, input_hash, position, seq, state, phase,
                        snapshot, snapshot_seq, created_at, updated_at)
VALUES ($1, $2, 'order', 1, '\\x01', 1, 2, 'working', 'active', $3, 2, $4, $4)";
    sqlx::query(EXECUTION)
        .bind(tenant)
        .bind(execution)
        .bind(RawJson::from_value(&commit.state).as_str())
        .bind(THEN)
        .execute(&mut *connection)
        .await
        .unwrap();
    const EVENTS: &str = "
INSERT INTO events (tenant, event_id, execution_id, accept_no, name, payload, created_at)
VALUES ($1, $3, $2, 2, 'go', '1', $5), ($1, $4, $2, 3, 'millstream.cancel', '2', $5)";
    const MAILBOX: &str = "
INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
VALUES ($1, $2, 3, $4, 1, $3 <> $4, $5)";
    for statement in [EVENTS, MAILBOX] {
        sqlx::query(statement)
            .bind(tenant)
            .bind(execution)
            .bind(acted.0)
            .bind(waiting.0)
            .bind(THEN)
            .execute(&mut *connection)
            .await
            .unwrap();
    }
    const TRANSITION: &str = "
INSERT INTO transitions (tenant, execution_id, seq, event_id, name, at, decision, worker_id, committed_at)
VALUES ($1, $2, 2, $3, 'go', $4, $5, 'w-1', $4)";
    sqlx::query(TRANSITION)
        .bind(tenant)
        .bind(execution)
        .bind(acted.0)
        .bind(THEN)
        .bind(RawJson::from_value(&commit.transitions[0].decision).as_str())
        .execute(&mut *connection)
        .await
        .unwrap();
    const ACTIONS: &str = "
INSERT INTO actions (tenant, execution_id, seq, action, event_id, ordinal, alone, needs, status, attempts, epoch,
                     due_at, input, result, created_at, settled_at)
VALUES ($1, $2, 2, 'done', $3, 0, FALSE, '[]', 'succeeded', 1, 1, NULL, '{}', '7', $4, $4),
       ($1, $2, 2, 'next', $3, 1, FALSE, '[\"done\"]', 'ready', 1, 1, $4, '{}', NULL, $4, NULL),
       ($1, $2, 2, 'last', $3, 2, FALSE, '[\"next\"]', 'waiting', 0, 0, NULL, '{}', NULL, $4, NULL)";
    sqlx::query(ACTIONS)
        .bind(tenant)
        .bind(execution)
        .bind(acted.0)
        .bind(THEN)
        .execute(&mut *connection)
        .await
        .unwrap();
    const OTHERS: &str = "
WITH decision AS (
    INSERT INTO decisions (tenant, execution_id, kind, reason, at) VALUES ($1, $2, 'pause', 'why', $3)
), worker AS (
    INSERT INTO workers (worker_id, started_at, seen_at, lanes, in_flight, version)
    VALUES ('w-1', $3, $3, '[1]', 2, '0.1')
)
INSERT INTO timers (tenant, execution_id, armed_seq, ordinal, fire_at, send) VALUES ($1, $2, 2, 0, $3 + 9, 'late')";
    sqlx::query(OTHERS).bind(tenant).bind(execution).bind(THEN).execute(connection).await.unwrap();
}

#[tokio::test]
async fn older_rows_are_kept_and_finished() {
    let database = millstream_testkit::postgres::private_database().await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let spine = Migration::new(1, "spine".into(), MigrationType::Simple, SqlStr::from_static(SPINE), false);
    Migrator::with_migrations(vec![spine]).run_direct(None, &mut connection, false).await.unwrap();
    let (acted, waiting) = (EventId(Uuid::now_v7()), EventId(Uuid::now_v7()));
    old_rows(&mut connection, acted, waiting).await;

    let store = PostgresStore::connect(&database.url, PostgresOptions::default()).await.unwrap();
    let all = [
        "0002 work",
        "0003 graphs",
        "0004 accepted",
        "0005 outbox",
        "0006 devices",
        "0007 people",
        "0008 notices",
        "0009 standings",
        "0010 keys",
        "0011 releases",
        "0012 quotas",
        "0013 open_runs",
        "0014 execution_lists",
    ];
    assert_eq!(store.schema().await.unwrap().pending, all);
    store.migrate().await.unwrap();
    let key = key("old");
    let then = Timestamp::from_millis(THEN);
    let found = store.find_executions(std::slice::from_ref(&key)).await.unwrap().remove(0).unwrap();
    assert_eq!((found.state.seq, found.state.state.as_str()), (Seq(2), "working"));
    let wanted = [LoadRequest { execution: key.clone(), known: None }];
    let LoadVerdict::Found(loaded) =
        store.load_executions(&wanted, MailboxLimits::default()).await.unwrap().remove(0)
    else {
        panic!("not there")
    };
    assert_eq!(loaded.mailbox.iter().map(|event| event.event_id).collect::<Vec<_>>(), [waiting]);
    let actions = store.list_actions(&key, None, 10).await.unwrap();
    let shape: Vec<_> = actions.iter().map(|view| (view.status, view.ready_at, view.revision)).collect();
    let of = |status| (status, Some(then), 0);
    assert_eq!(shape, [ActionStatus::Succeeded, ActionStatus::Ready, ActionStatus::Waiting].map(of));
    assert!(
        actions.iter().all(|view| view.queue == ActionQueue::engine_for_all() && view.progress.is_none())
    );
    assert_eq!(store.list_decisions(&key).await.unwrap()[0].kind, "pause");
    assert!(store.list_workers(then).await.unwrap()[0].beat.calls.is_empty());
    assert_eq!(store.next_due(&[ActionQueue::engine_for_all()]).await.unwrap(), Some(then));

    let now = store.ping().await.unwrap();
    let next = store.lease_each(&[worker()], &grant(5), now).await.unwrap().remove(0);
    assert_eq!((next.lease.epoch, next.attempt, next.ready_at), (Epoch(2), 2, then));
    assert_eq!(next.results.values().collect::<Vec<_>>(), [&raw("7")]);
    let succeeded = |lease| Settlement {
        lease,
        event_id: acted,
        outcome: SettleOutcome::Succeeded { result: raw("8"), emit: None },
    };
    let settled = store.settle_actions(&worker(), &[succeeded(next.lease)], &grant(1), now).await.unwrap();
    let last = settled.leased[0].lease.clone();
    let settled = store.settle_actions(&worker(), &[succeeded(last)], &grant(0), now).await.unwrap();
    assert_eq!(settled.verdicts, [SettleVerdict::Recorded { event: EventStatus::Completed }]);
    let views = store.find_events(&[(key.tenant.clone(), acted)]).await.unwrap();
    assert_eq!(views[0].as_ref().unwrap().status, EventStatus::Completed);
}

/// Every commit writes a new version of its execution's row; within the page, as long as no index is concerned.
#[tokio::test]
async fn commits_touch_no_index_of_executions() {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let now = store.ping().await.unwrap();
    let keys = fixture.start(50, "hot").await;
    let posts: Vec<_> = keys.iter().map(|key| event(key, "go")).collect();
    let commits = keys.iter().zip(&posts).map(|(key, post)| support::act(key, post.event_id, &["a"], now));
    let commits: Vec<_> = commits.collect();
    let batch: Vec<_> = posts.into_iter().map(millstream_store::event_log::AppendRequest::Event).collect();
    millstream_store::event_log::EventLog::append(&**store, &batch, now).await.unwrap();
    let commits = fixture.placed(commits).await;
    store.commit_executions(&worker(), &commits, &grant(0), now).await.unwrap();
    store.close().await;
    let (all, within) = support::counted_updates(&fixture.database.url, "executions", 50).await;
    assert_eq!(all, 50);
    assert!(within > 40, "{within} of {all} stayed within their page");
}

/// A release that comes after this one has added a table, and its migration is recorded.
const NEWER: &str = "
CREATE TABLE of_a_newer_release (n BIGINT);
ALTER TABLE executions ADD COLUMN of_a_newer_release TEXT;
INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
VALUES (99, 'newer', true, '\\x00', 0)";

#[tokio::test]
async fn tables_of_newer_postgres_release_serve_this() {
    let fixture = PostgresFixture::fresh().await;
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    sqlx::raw_sql(NEWER).execute(&mut connection).await.unwrap();
    let store = PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
    assert_eq!(
        store.schema().await.unwrap().judge_release(Release::OURS),
        SchemaFit::Newer { unknown: vec![99] }
    );
    store.migrate().await.unwrap();

    let now = store.ping().await.unwrap();
    let keys = fixture.start(1, "served").await;
    let post = event(&keys[0], "go");
    let commit = support::act(&keys[0], post.event_id, &["a"], now);
    let batch = [millstream_store::event_log::AppendRequest::Event(post)];
    millstream_store::event_log::EventLog::append(&*store, &batch, now).await.unwrap();
    let commits = fixture.placed(vec![commit]).await;
    store.commit_executions(&worker(), &commits, &grant(0), now).await.unwrap();
    assert_eq!(fixture.seq(&keys[0]).await, 2);
}

#[tokio::test]
async fn finished_postgres_upgrade_refuses_older_releases() {
    let fixture = PostgresFixture::fresh().await;
    let store = &fixture.store;
    let newer = Release { minor: Release::OURS.minor + 1, ..Release::OURS };
    assert_eq!(store.schema().await.unwrap().judge_release(Release::OURS), SchemaFit::Exact);
    assert_eq!(store.finish_upgrade(newer).await.unwrap(), newer);
    let refused = SchemaFit::Finished { oldest: newer };
    assert_eq!(store.schema().await.unwrap().judge_release(Release::OURS), refused);
    assert_eq!(store.finish_upgrade(Release::OURS).await.unwrap(), newer);
    assert_eq!(store.schema().await.unwrap().judge_release(Release::OURS), refused);
    assert_eq!(store.schema().await.unwrap().judge_release(newer), SchemaFit::Exact);
}

//! An undecodable row makes only its own execution corrupt, and an unreachable database is reported quickly.

use std::time::{Duration, Instant};

use crate::support::{PostgresFixture, event};
use millstream_store::StoreError;
use millstream_store::event_log::{AppendRequest, EventLog};
use millstream_store::execution_store::{ExecutionStore, LoadRequest, LoadVerdict, MailboxLimits};
use millstream_store::housekeeping::Housekeeping;
use millstream_store::views::{ExecutionFilter, ExecutionViews};
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::{Connection, PgConnection};

#[tokio::test]
async fn undecodable_snapshot_is_corrupt_alone() {
    let fixture = PostgresFixture::fresh().await;
    let keys = fixture.start(3, "e").await;
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    const SPOIL: &str = "UPDATE executions SET snapshot = '{' WHERE execution_id = 'e-1'";
    sqlx::query(SPOIL).execute(&mut connection).await.unwrap();
    let wanted: Vec<_> = keys.iter().map(|key| LoadRequest { execution: key.clone(), known: None }).collect();
    let loaded = fixture.store.load_executions(&wanted, MailboxLimits::default()).await.unwrap();
    let kinds: Vec<_> = loaded
        .iter()
        .map(|loaded| match loaded {
            LoadVerdict::Found(_) => "found",
            LoadVerdict::Missing => "missing",
            LoadVerdict::Corrupt { .. } => "corrupt",
        })
        .collect();
    assert_eq!(kinds, ["found", "corrupt", "found"]);
}

#[tokio::test]
async fn undecodable_execution_does_not_hide_list() {
    let fixture = PostgresFixture::fresh().await;
    let keys = fixture.start(4, "e").await;
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    for spoil in [
        "UPDATE executions SET snapshot = '{' WHERE execution_id = 'e-1'",
        "UPDATE executions SET seq = 2 WHERE execution_id = 'e-2'",
    ] {
        sqlx::query(spoil).execute(&mut connection).await.unwrap();
    }
    let filter = ExecutionFilter::default();
    let listed = fixture.store.list_executions(&keys[0].tenant, &filter, None, 10).await.unwrap();
    let shown: Vec<_> =
        listed.iter().map(|view| (view.execution.execution.as_str(), view.unreadable.is_some())).collect();
    assert_eq!(shown, [("e-3", false), ("e-2", true), ("e-1", true), ("e-0", false)]);
}

#[tokio::test]
async fn refused_text_is_corrupt_and_not_retried() {
    let fixture = PostgresFixture::fresh().await;
    let keys = fixture.start(1, "e").await;
    let now = fixture.store.ping().await.unwrap();
    let mut refused = event(&keys[0], "go");
    refused.actor = Some("a\0b".to_owned());
    let error = fixture.store.append(&[AppendRequest::Event(refused)], now).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
}

#[tokio::test]
async fn unreachable_database_is_unavailable_soon() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://postgres@127.0.0.1:{port}/nothing");
    let store = PostgresStore::connect(&url, PostgresOptions::default()).await.unwrap();
    let began = Instant::now();
    let error = store.ping().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn concurrent_migrations_are_safe() {
    let database = millstream_testkit::postgres::private_database().await;
    let connect = || PostgresStore::connect(&database.url, PostgresOptions::default());
    let (first, second) = (connect().await.unwrap(), connect().await.unwrap());
    let all = [
        "0001 spine",
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
    assert_eq!(first.schema().await.unwrap().pending, all);
    let (one, two) = tokio::join!(first.migrate(), second.migrate());
    one.unwrap();
    two.unwrap();
    assert!(first.schema().await.unwrap().pending.is_empty());
}

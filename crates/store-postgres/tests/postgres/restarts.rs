//! A server restart costs one call, and closing a store ends calls in progress.

use std::time::Duration;

use crate::support::PostgresFixture;
use millstream_store::views::EventViews;
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::{Connection, PgConnection};

#[tokio::test]
async fn server_restart_costs_one_call() {
    const TERMINATE: &str = "
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let fixture = PostgresFixture::fresh().await;
    let call = || fixture.store.find_events(&[]);
    let used = futures::future::join_all((0..6).map(|_| call())).await;
    assert!(used.iter().all(Result::is_ok), "{used:?}");
    let mut connection = PgConnection::connect(&fixture.database.url).await.unwrap();
    let ended: i64 = sqlx::query_scalar(TERMINATE).fetch_one(&mut connection).await.unwrap();
    assert!(ended > 1, "there was one connection only");
    let mut failed = 0;
    for _ in 0..10 {
        failed += usize::from(call().await.is_err());
    }
    assert!(failed <= 1, "{failed} of 10 calls failed");
}

#[tokio::test]
async fn store_closes_during_running_calls() {
    let fixture = PostgresFixture::fresh().await;
    for round in 0..50 {
        let store = PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
        store.find_events(&[]).await.unwrap();
        let calls = futures::future::join_all((0..4).map(|_| store.find_events(&[])));
        let both = futures::future::join(calls, store.close());
        tokio::time::timeout(Duration::from_secs(10), both)
            .await
            .unwrap_or_else(|_| panic!("round {round}: a connection was kept back"));
    }
}

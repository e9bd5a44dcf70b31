//! A server restart costs one call, and closing a store ends calls in progress.

use std::time::Duration;

use crate::support::Fixture;
use millstream_store::views::EventViews;
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::{Connection, PgConnection};

#[tokio::test]
async fn connections_that_died_with_a_server_cost_one_call() {
    const TERMINATE: &str = "
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let fixture = Fixture::fresh().await;
    let call = || fixture.store.events(&[]);
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
async fn a_store_closes_while_calls_are_on_the_way() {
    let fixture = Fixture::fresh().await;
    for round in 0..50 {
        let store = PostgresStore::connect(&fixture.database.url, PostgresOptions::default()).await.unwrap();
        store.events(&[]).await.unwrap();
        let calls = futures::future::join_all((0..4).map(|_| store.events(&[])));
        let both = futures::future::join(calls, store.close());
        tokio::time::timeout(Duration::from_secs(10), both)
            .await
            .unwrap_or_else(|_| panic!("round {round}: a connection was kept back"));
    }
}

//! A server that was restarted costs one call.

use crate::support::Fixture;
use millstream_store::views::EventViews;
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

//! The conformance suite on real PostgreSQL: a fresh database per case.

#![expect(clippy::unwrap_used, reason = "test code outside of a test function")]

use millstream_store::Stores;
use millstream_store_conformance::ConformanceBench;
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use millstream_testkit::postgres;

async fn fresh() -> ConformanceBench {
    let database = postgres::private_database().await;
    let store = PostgresStore::connect(&database.url, PostgresOptions::default()).await.unwrap();
    store.migrate().await.unwrap();
    ConformanceBench::new(Stores::from_backend(store)).keeping(database)
}

millstream_store_conformance::conformance_tests!(fresh().await);

//! The conformance suite on real files.

#![expect(clippy::unwrap_used, reason = "a store that cannot be opened fails the test")]

use millstream_store::Stores;
use millstream_store_conformance::ConformanceBench;
use millstream_store_sqlite::{SqliteOptions, SqliteStore};

async fn fresh_bench() -> ConformanceBench {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("millstream.db");
    let store = SqliteStore::open(path.to_str().unwrap(), SqliteOptions::default()).await.unwrap();
    store.migrate().await.unwrap();
    ConformanceBench::new(Stores::from_backend(store)).keeping(directory)
}

millstream_store_conformance::conformance_tests!(fresh_bench().await);

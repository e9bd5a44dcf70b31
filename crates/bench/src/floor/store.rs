//! A separate store for a floor: opened, migrated, closed.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millstream_model::time::Timestamp;
use millstream_store::{StoreError, Stores};
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use millstream_store_sqlite::{SqliteOptions, SqliteStore};

use crate::error::{BenchError, BenchResult};

/// An open store and its clock.
#[derive(Debug)]
pub(super) struct FloorStore {
    pub(super) stores: Stores,
    backend: FloorBackend,
    began: Instant,
    epoch: Timestamp,
}

#[derive(Debug)]
enum FloorBackend {
    Postgres(Arc<PostgresStore>),
    Sqlite(Arc<SqliteStore>),
}

impl FloorStore {
    pub(super) async fn open_postgres(url: &str, connections: usize) -> BenchResult<Self> {
        let max_connections = u32::try_from(connections).unwrap_or(u32::MAX).clamp(1, 64);
        let options = PostgresOptions { max_connections, ..PostgresOptions::default() };
        let store = PostgresStore::connect(url, options).await.map_err(store_error)?;
        store.migrate().await.map_err(store_error)?;
        Self::migrate_store(Stores::from_backend(store.clone()), FloorBackend::Postgres(store)).await
    }

    pub(super) async fn open_sqlite(file: &Path) -> BenchResult<Self> {
        let store = SqliteStore::open(&file.to_string_lossy(), SqliteOptions::default())
            .await
            .map_err(store_error)?;
        store.migrate().await.map_err(store_error)?;
        Self::migrate_store(Stores::from_backend(store.clone()), FloorBackend::Sqlite(store)).await
    }

    async fn migrate_store(stores: Stores, backend: FloorBackend) -> BenchResult<Self> {
        let epoch = stores.housekeeping.ping().await.map_err(store_error)?;
        Ok(Self { stores, backend, began: Instant::now(), epoch })
    }

    /// The store's time, approximately.
    pub(super) fn now(&self) -> Timestamp {
        self.epoch.plus(self.began.elapsed())
    }

    pub(super) async fn close(self) {
        match self.backend {
            FloorBackend::Postgres(store) => store.close().await,
            FloorBackend::Sqlite(store) => store.close().await,
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn store_error(error: StoreError) -> BenchError {
    BenchError::Wrong(format!("the store: {error}"))
}

//! A separate store for a floor: opened, migrated, closed.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millstream_core::time::Timestamp;
use millstream_store::{StoreError, Stores};
use millstream_store_postgres::{PostgresOptions, PostgresStore};
use millstream_store_sqlite::{SqliteOptions, SqliteStore};

use crate::error::{BenchError, Result};

/// An open store and its clock.
#[derive(Debug)]
pub(super) struct OpenStore {
    pub(super) stores: Stores,
    backend: Backend,
    began: Instant,
    epoch: Timestamp,
}

#[derive(Debug)]
enum Backend {
    Postgres(Arc<PostgresStore>),
    Sqlite(Arc<SqliteStore>),
}

impl OpenStore {
    pub(super) async fn postgres(url: &str, connections: usize) -> Result<Self> {
        let max_connections = u32::try_from(connections).unwrap_or(u32::MAX).clamp(1, 64);
        let options = PostgresOptions { max_connections, ..PostgresOptions::default() };
        let store = PostgresStore::connect(url, options).await.map_err(failed)?;
        store.migrate().await.map_err(failed)?;
        Self::of(Stores::of(store.clone()), Backend::Postgres(store)).await
    }

    pub(super) async fn sqlite(file: &Path) -> Result<Self> {
        let store =
            SqliteStore::open(&file.to_string_lossy(), SqliteOptions::default()).await.map_err(failed)?;
        store.migrate().await.map_err(failed)?;
        Self::of(Stores::of(store.clone()), Backend::Sqlite(store)).await
    }

    async fn of(stores: Stores, backend: Backend) -> Result<Self> {
        let epoch = stores.housekeeping.ping().await.map_err(failed)?;
        Ok(Self { stores, backend, began: Instant::now(), epoch })
    }

    /// The store's time, approximately.
    pub(super) fn now(&self) -> Timestamp {
        self.epoch.plus(self.began.elapsed())
    }

    pub(super) async fn close(self) {
        match self.backend {
            Backend::Postgres(store) => store.close().await,
            Backend::Sqlite(store) => store.close().await,
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn failed(error: StoreError) -> BenchError {
    BenchError::Wrong(format!("the store: {error}"))
}

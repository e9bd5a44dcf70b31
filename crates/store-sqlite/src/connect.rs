//! Opening the file: one connection that writes, a few that only read.
//!
//! A deferred transaction that turns into a writer fails at once when another one has written
//! meanwhile, whatever the busy timeout; so writers begin with `BEGIN IMMEDIATE`, and because there is
//! one writing connection, waiting for it is a fair queue in this process and not a race in the file.
//! The readers are opened read-only: a statement that writes by mistake fails there.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use millstream_store::{Result, StoreError};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Sqlite, SqlitePool, Transaction};

use crate::errors::store_error;

/// The first version without the WAL-reset bug, which can corrupt a database that is written and
/// checkpointed at the same moment.
const OLDEST_SAFE_VERSION: (u32, u32, u32) = (3, 51, 3);

/// A store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    pub(crate) writer: SqlitePool,
    pub(crate) readers: SqlitePool,
}

/// How the file is used.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Connections that only read. Each costs a thread and its page cache.
    pub readers: u32,
    /// How long a call waits for a connection before the store counts as unavailable.
    pub acquire_timeout: Duration,
    /// How long SQLite waits for a lock of somebody else on the file (a backup tool, a shell).
    pub busy_timeout: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { readers: 4, acquire_timeout: Duration::from_secs(10), busy_timeout: Duration::from_secs(5) }
    }
}

impl SqliteStore {
    /// Open a file by path or `sqlite://` URL; it and its directory are made if there are none. The
    /// tables come with [`SqliteStore::migrate`].
    pub async fn open(path_or_url: &str, options: SqliteOptions) -> Result<Arc<Self>> {
        let file = file_options(path_or_url)?;
        if let Some(directory) = file.get_filename().parent().filter(|path| *path != Path::new("")) {
            tokio::fs::create_dir_all(directory).await.map_err(|error| {
                StoreError::Unavailable(format!("cannot create {}: {error}", directory.display()))
            })?;
        }

        let file = file
            .busy_timeout(options.busy_timeout)
            .foreign_keys(false)
            .statement_cache_capacity(256)
            .pragma("temp_store", "MEMORY")
            .pragma("cache_size", "-16384");
        let writing = file
            .clone()
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .pragma("journal_size_limit", "67108864");
        let reading = file.read_only(true);

        let writer = pool(1, &options).connect_with(writing).await.map_err(store_error)?;
        check_version(&writer).await?;
        let readers =
            pool(options.readers.max(1), &options).connect_with(reading).await.map_err(store_error)?;
        Ok(Arc::new(Self { writer, readers }))
    }

    /// Wait for what is under way and close the file, which folds the WAL back into it.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Write a consistent copy of the database to a file that does not exist yet. Writers go on
    /// meanwhile.
    pub async fn backup(&self, path: &Path) -> Result<()> {
        let path = path.to_str().ok_or_else(|| {
            StoreError::Unavailable(format!("the path {} is not valid Unicode", path.display()))
        })?;
        sqlx::query("VACUUM INTO ?1").bind(path).execute(&self.readers).await.map_err(store_error)?;
        Ok(())
    }

    /// The turn to write. Dropped without a commit, it rolls back.
    pub(crate) async fn write(&self) -> Result<Transaction<'static, Sqlite>> {
        self.writer.begin_with("BEGIN IMMEDIATE").await.map_err(store_error)
    }

    /// Several reads of one and the same state of the database.
    pub(crate) async fn read(&self) -> Result<Transaction<'static, Sqlite>> {
        self.readers.begin().await.map_err(store_error)
    }
}

fn file_options(path_or_url: &str) -> Result<SqliteConnectOptions> {
    let options = if path_or_url.starts_with("sqlite:") {
        SqliteConnectOptions::from_str(path_or_url).map_err(store_error)?
    } else {
        SqliteConnectOptions::new().filename(path_or_url)
    };
    let name = options.get_filename().to_string_lossy();
    if name.is_empty() || name.contains(":memory:") || name.contains("sqlx-in-memory") {
        return Err(StoreError::Unavailable("a store needs a file: several connections share it".to_owned()));
    }
    Ok(options)
}

/// Connections live as long as the store: reopening one would only lose its cache and statements.
fn pool(size: u32, options: &SqliteOptions) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(size)
        .acquire_timeout(options.acquire_timeout)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

async fn check_version(pool: &SqlitePool) -> Result<()> {
    let version: String =
        sqlx::query_scalar("SELECT sqlite_version()").fetch_one(pool).await.map_err(store_error)?;
    if is_safe(&version) {
        return Ok(());
    }
    let (major, minor, patch) = OLDEST_SAFE_VERSION;
    Err(StoreError::Unavailable(format!(
        "SQLite {version} can corrupt a database in WAL mode: {major}.{minor}.{patch} or newer is needed"
    )))
}

/// A version that cannot be read is not safe.
fn is_safe(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let mut next = || parts.next().flatten();
    match (next(), next(), next()) {
        (Some(major), Some(minor), Some(patch)) => (major, minor, patch) >= OLDEST_SAFE_VERSION,
        (_, _, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_the_wal_reset_bug_are_refused() {
        for version in ["3.51.2", "3.50.9", "2.99.99", "3.51", "unknown", ""] {
            assert!(!is_safe(version), "{version}");
        }
        for version in ["3.51.3", "3.52.0", "4.0.0"] {
            assert!(is_safe(version), "{version}");
        }
    }

    #[test]
    fn a_store_in_memory_is_refused() {
        for url in ["sqlite::memory:", ":memory:", "sqlite://:memory:", ""] {
            assert!(file_options(url).is_err(), "{url}");
        }
        assert_eq!(
            file_options("sqlite://.millstream/millstream.db").unwrap().get_filename(),
            Path::new(".millstream/millstream.db")
        );
    }
}

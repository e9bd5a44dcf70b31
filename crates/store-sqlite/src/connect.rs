//! Opening the file: one connection that writes, a few that only read.

use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millstream_store::{StoreError, StoreResult};
use rusqlite::{Connection, OpenFlags};

use crate::errors::{SqliteFailure, SqliteResult};
use crate::readers::ReaderPool;
use crate::writer::SqliteWriter;

/// The first version without the WAL-reset bug, which can corrupt a database that is written and
/// checkpointed at the same moment.
const OLDEST_SAFE_VERSION: (u32, u32, u32) = (3, 51, 3);

/// More than there are statements in this crate: each is prepared once per connection.
const STATEMENTS: usize = 192;

/// Only the writer's cache survives: a reader drops its own after every commit.
const WRITER_CACHE_KIB: i64 = 32 * 1024;
const READER_CACHE_KIB: i64 = 4 * 1024;

/// The length of the WAL, in pages, at which it is folded into the file: 16 MiB.
const CHECKPOINT_PAGES: i64 = 4_096;

/// A store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    writer: SqliteWriter,
    readers: ReaderPool,
}

/// How the file is used.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Connections that only read. Each costs its page cache, and a thread while it reads.
    pub readers: u32,
    /// How long a call waits for its turn before the store counts as unavailable.
    pub acquire_timeout: Duration,
    /// How long SQLite waits for a lock of another process on the file (a backup tool, a shell).
    pub busy_timeout: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { readers: 4, acquire_timeout: Duration::from_secs(10), busy_timeout: Duration::from_secs(5) }
    }
}

impl SqliteStore {
    /// Open a file by path or `sqlite://` URL; it and its directory are created if missing.
    /// [`SqliteStore::migrate`] creates the tables.
    pub async fn open(path_or_url: &str, options: SqliteOptions) -> StoreResult<Arc<Self>> {
        let path = file_path(path_or_url)?;
        let opened = tokio::task::spawn_blocking(move || open_file(&path, &options));
        opened.await.map_err(|error| StoreError::Unavailable(format!("opening was interrupted: {error}")))?
    }

    /// Wait for calls in progress and close the file, which checkpoints the WAL.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Write a consistent copy of the database to a new file. Writers continue meanwhile.
    pub async fn backup(&self, path: &Path) -> StoreResult<()> {
        let path = path.to_owned();
        self.readers
            .run_bare(move |connection| {
                // An existing empty file is accepted: a private one is created that way.
                if path.exists() {
                    return Err(
                        StoreError::Unavailable(format!("file {} already exists", path.display())).into()
                    );
                }
                make_private_file(&path)?;
                let path = path.to_str().ok_or_else(|| {
                    StoreError::Unavailable(format!("the path {} is not valid Unicode", path.display()))
                })?;
                connection.execute("VACUUM INTO ?1", [path])?;
                Ok(())
            })
            .await
    }

    /// Run `work` in a write transaction; see [`SqliteWriter`].
    pub(crate) async fn write_transaction<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> SqliteResult<T> + Send + 'static,
    {
        self.writer.run(work).await
    }

    /// Run `work` on one consistent snapshot of the database.
    pub(crate) async fn read_transaction<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    {
        self.readers.run(work).await
    }
}

fn open_file(path: &Path, options: &SqliteOptions) -> StoreResult<Arc<SqliteStore>> {
    if let Some(directory) = path.parent().filter(|path| *path != Path::new("")) {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
            StoreError::Unavailable(format!("cannot create {}: {error}", directory.display()))
        })?;
    }
    check_version()?;
    make_private_file(path)?;
    let writer = open_writer(path, options)?;
    let readers = (0..options.readers.max(1)).map(|_| open_reader(path, options));
    let readers = readers.collect::<SqliteResult<Vec<_>>>()?;
    Ok(Arc::new(SqliteStore {
        writer: SqliteWriter::start(writer, options.acquire_timeout)?,
        readers: ReaderPool::of(readers, options.acquire_timeout),
    }))
}

/// A new file is readable by its owner only, and so are the WAL and the index beside it, which SQLite creates
/// with the same mode.
fn make_private_file(path: &Path) -> StoreResult<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::Unavailable(format!("cannot create {}: {error}", path.display()))),
    }
}

/// WAL with `synchronous=FULL`: a commit is on the disk when it returns.
fn open_writer(path: &Path, options: &SqliteOptions) -> SqliteResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = open_connection(path, flags, options)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    // A page that many commits write is checkpointed once.
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", 67_108_864)?;
    Ok(connection)
}

fn open_reader(path: &Path, options: &SqliteOptions) -> SqliteResult<Connection> {
    let connection = open_connection(path, OpenFlags::SQLITE_OPEN_READ_ONLY, options)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    Ok(connection)
}

fn open_connection(path: &Path, flags: OpenFlags, options: &SqliteOptions) -> SqliteResult<Connection> {
    // Each connection is used by one thread at a time, so it needs no lock of its own.
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(options.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

fn file_path(path_or_url: &str) -> StoreResult<PathBuf> {
    let path = path_or_url.strip_prefix("sqlite://").or_else(|| path_or_url.strip_prefix("sqlite:"));
    let path = path.unwrap_or(path_or_url);
    if path.is_empty() || path.contains(":memory:") {
        return Err(StoreError::Unavailable("the store needs a file: its connections share it".to_owned()));
    }
    Ok(PathBuf::from(path))
}

/// The version of the library.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

fn check_version() -> SqliteResult<()> {
    let version = sqlite_version();
    if is_safe(version) {
        return Ok(());
    }
    let (major, minor, patch) = OLDEST_SAFE_VERSION;
    Err(SqliteFailure::from(StoreError::Unavailable(format!(
        "SQLite {version} can corrupt a database in WAL mode: {major}.{minor}.{patch} or newer is needed"
    ))))
}

/// An unparsable version is unsafe.
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
    fn versions_with_wal_reset_bug_are_refused() {
        for version in ["3.51.2", "3.50.9", "2.99.99", "3.51", "unknown", ""] {
            assert!(!is_safe(version), "{version}");
        }
        for version in ["3.51.3", "3.52.0", "4.0.0"] {
            assert!(is_safe(version), "{version}");
        }
    }

    #[test]
    fn in_memory_store_is_refused() {
        for url in ["sqlite::memory:", ":memory:", "sqlite://:memory:", ""] {
            assert!(file_path(url).is_err(), "{url}");
        }
        assert_eq!(
            file_path("sqlite://.millstream/millstream.db").unwrap(),
            Path::new(".millstream/millstream.db")
        );
    }
}

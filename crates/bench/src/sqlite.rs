//! SQLite for the bench: its version, and the size of a file.

use std::path::Path;

use serde::Serialize;

use crate::error::BenchResult;

/// Settings with which the embedded store opens its file. `synchronous` belongs to a connection and cannot be
/// queried from outside; the store sets it.
#[derive(Debug, Clone, Serialize)]
pub struct SqliteFacts {
    pub version: String,
    pub journal_mode: &'static str,
    pub synchronous: &'static str,
}

pub(crate) async fn sqlite_facts() -> BenchResult<SqliteFacts> {
    let version = millstream_store_sqlite::sqlite_version().to_owned();
    Ok(SqliteFacts { version, journal_mode: "wal", synchronous: "full" })
}

/// Bytes on disk, the write-ahead log included.
pub(crate) fn file_size(file: &Path) -> u64 {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    length(file) + length(Path::new(&log))
}

//! Faults for a SQLite file that another process has open: locking it, and writing to it.
//!
//! It does not create databases.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// Timeout for the lock of another writer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Holds the write lock and so blocks all other writers, until dropped or released.
#[derive(Debug)]
pub struct WriteLock {
    connection: Connection,
}

/// Waits for the lock and keeps it.
pub async fn lock_out(path: &Path) -> WriteLock {
    let connection = with_connection(path, |connection| {
        connection.execute_batch("BEGIN IMMEDIATE").expect("take the write lock");
        connection
    });
    WriteLock { connection: connection.await }
}

impl WriteLock {
    pub async fn release(self) {
        self.connection.execute_batch("ROLLBACK").expect("give the write lock back");
    }
}

/// Runs one statement and answers how many rows it changed.
pub async fn execute_statement(path: &Path, statement: &str) -> u64 {
    let statement = statement.to_owned();
    let changed = with_connection(path, move |connection| {
        connection.execute(&statement, ()).unwrap_or_else(|error| panic!("{statement}: {error}"))
    });
    changed.await as u64
}

/// Runs on a thread that may block.
async fn with_connection<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(Connection) -> T + Send + 'static,
) -> T {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || work(open_connection(path))).await.expect("the work on the file")
}

fn open_connection(path: PathBuf) -> Connection {
    let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .unwrap_or_else(|error| panic!("open {}: {error}", path.display()));
    connection.busy_timeout(PATIENCE).expect("set the patience");
    connection
}

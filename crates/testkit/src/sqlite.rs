//! Faults for a SQLite file that somebody else has open: locking it, and writing into it.
//!
//! It refuses to make a database; it only meddles with one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// How long to wait for somebody who is writing.
const PATIENCE: Duration = Duration::from_secs(5);

/// Holds the right to write, so that nobody else can; dropped or released, it lets go.
#[derive(Debug)]
pub struct WriteLock {
    connection: Connection,
}

/// Waits for the lock and keeps it.
pub async fn lock_out(path: &Path) -> WriteLock {
    let connection = on(path, |connection| {
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
pub async fn execute(path: &Path, statement: &str) -> u64 {
    let statement = statement.to_owned();
    let changed = on(path, move |connection| {
        connection.execute(&statement, ()).unwrap_or_else(|error| panic!("{statement}: {error}"))
    });
    changed.await as u64
}

/// On a thread that may wait.
async fn on<T: Send + 'static>(path: &Path, work: impl FnOnce(Connection) -> T + Send + 'static) -> T {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || work(open(path))).await.expect("the work on the file")
}

fn open(path: PathBuf) -> Connection {
    let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .unwrap_or_else(|error| panic!("open {}: {error}", path.display()));
    connection.busy_timeout(PATIENCE).expect("set the patience");
    connection
}

//! Faults for a SQLite file that somebody else has open: locking it, and writing into it.
//!
//! It refuses to make a database; it only meddles with one.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};

/// Holds the right to write, so that nobody else can; dropped or released, it lets go.
#[derive(Debug)]
pub struct WriteLock {
    connection: SqliteConnection,
}

/// Waits for the lock and keeps it.
pub async fn lock_out(path: &Path) -> WriteLock {
    let mut connection = open(path).await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.expect("take the write lock");
    WriteLock { connection }
}

impl WriteLock {
    pub async fn release(mut self) {
        sqlx::query("ROLLBACK").execute(&mut self.connection).await.expect("give the write lock back");
        self.connection.close().await.expect("close the connection");
    }
}

/// Runs one statement and answers how many rows it changed.
pub async fn execute(path: &Path, statement: &str) -> u64 {
    let mut connection = open(path).await;
    let done = sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await;
    let changed = done.unwrap_or_else(|error| panic!("{statement}: {error}")).rows_affected();
    connection.close().await.expect("close the connection");
    changed
}

async fn open(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .connect()
        .await
        .unwrap_or_else(|error| panic!("open {}: {error}", path.display()))
}

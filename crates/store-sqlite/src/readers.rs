//! The read-only connections. In WAL mode readers and the writer do not wait for each other.
//!
//! They are opened read-only: a statement that writes by mistake fails here. Every read is a transaction, so
//! its result comes from one snapshot.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_store::{StoreError, StoreResult};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::errors::SqliteResult;

#[derive(Debug)]
pub(crate) struct ReaderPool {
    idle: Arc<Mutex<Vec<Connection>>>,
    /// One permit for each connection.
    turns: Arc<Semaphore>,
    count: u32,
    patience: Duration,
}

impl ReaderPool {
    pub(crate) fn of(connections: Vec<Connection>, patience: Duration) -> Self {
        let count = u32::try_from(connections.len()).unwrap_or(u32::MAX);
        let turns = Arc::new(Semaphore::new(connections.len()));
        Self { idle: Arc::new(Mutex::new(connections)), turns, count, patience }
    }

    /// Run `work` on one consistent snapshot of the database.
    pub(crate) async fn run<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    {
        self.run_bare(move |connection| at_one_moment(connection, work)).await
    }

    /// Run a statement that cannot be part of a transaction.
    pub(crate) async fn run_bare<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
    {
        let turn = tokio::time::timeout(self.patience, Arc::clone(&self.turns).acquire_owned())
            .await
            .map_err(|_| StoreError::Unavailable(format!("waited {:?} for a reader", self.patience)))?
            .map_err(|_| closed_error())?;
        let idle = Arc::clone(&self.idle);
        let read = tokio::task::spawn_blocking(move || {
            let connection = pop_idle(&idle).ok_or_else(closed_error)?;
            let outcome = work(&connection);
            push_idle(&idle, connection);
            drop(turn);
            outcome.map_err(StoreError::from)
        });
        read.await.map_err(|error| StoreError::Unavailable(format!("a read was interrupted: {error}")))?
    }

    /// Wait for calls in progress and close the connections.
    pub(crate) async fn close(&self) {
        let _all = self.turns.acquire_many(self.count).await;
        self.turns.close();
        lock_idle(&self.idle).clear();
    }
}

fn at_one_moment<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> SqliteResult<T>,
) -> SqliteResult<T> {
    connection.prepare_cached("BEGIN")?.execute(())?;
    let outcome = work(connection);
    connection.prepare_cached("COMMIT")?.execute(())?;
    outcome
}

fn closed_error() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

/// No code panics while the lock is held, and a list of connections cannot be half changed.
fn lock_idle(idle: &Mutex<Vec<Connection>>) -> std::sync::MutexGuard<'_, Vec<Connection>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pop_idle(idle: &Mutex<Vec<Connection>>) -> Option<Connection> {
    lock_idle(idle).pop()
}

fn push_idle(idle: &Mutex<Vec<Connection>>, connection: Connection) {
    lock_idle(idle).push(connection);
}

//! Connection cache of the hot paths: last in, first out, without a health check between uses.
//!
//! A pool checks each connection that comes back, which is a round trip and two wake-ups although the next
//! statement detects a broken connection by itself, and it hands out the one that has been idle the longest,
//! whose server process has cold caches. Here a few connections are held back from the pool, the most recent
//! on top. Every doubtful connection returns to the pool, which tests it and discards broken ones: after an
//! incomplete answer, after a dropped call, or after two minutes in this cache. After one broke, all of them
//! return: a server restart then fails one call and not one per connection.
//!
//! Statements here are their own transactions, and their answers are read to the end: the server commits
//! after the last row, and rows may arrive before that. A caller with several statements holds a connection
//! ([`HeldConnection`]) and declares the end of its transaction.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgDatabaseError, PgRow, PgSeverity};
use sqlx::query::Query;
use sqlx::{Connection, PgPool, PgTransaction, Postgres};

use crate::errors::PostgresResult;

/// Time after which the pool checks a connection: it may be too old, or idle for too long.
const WARM_FOR: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct WarmConnections {
    pool: PgPool,
    idle: Mutex<Vec<IdleConnection>>,
    most: usize,
    /// Number of callers that wait for the pool: while there are any, and once it is closed, nothing is held
    /// back.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct IdleConnection {
    connection: PoolConnection<Postgres>,
    since: Instant,
    /// A transaction was requested, and the answer has not arrived.
    is_beginning: bool,
}

impl Drop for IdleConnection {
    /// The call was dropped while a transaction began. The driver does not know about the transaction, and
    /// the pool would hand out the connection in the middle of it: later writes there would be answered and
    /// never committed.
    fn drop(&mut self) {
        if self.is_beginning {
            self.connection.close_on_drop();
        }
    }
}

/// Counts one waiting caller, for as long as it lives.
struct PoolWaiter<'a>(&'a AtomicUsize);

impl<'a> PoolWaiter<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for PoolWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WarmConnections {
    /// Holds back at most `most` connections of the pool.
    pub(crate) fn new(pool: PgPool, most: usize) -> Self {
        Self { pool, idle: Mutex::default(), most, waiting: AtomicUsize::new(0) }
    }

    /// All rows of a statement, after its commit.
    pub(crate) async fn fetch_rows(
        &self,
        query: Query<'_, Postgres, PgArguments>,
    ) -> PostgresResult<Vec<PgRow>> {
        let mut taken = self.take_connection().await?;
        let answer = query.fetch_all(&mut *taken.connection).await;
        match &answer {
            Ok(_) => self.put_back(taken),
            Err(error) if ends_connection(error) => self.return_all(),
            // The server is well and refused; the pool reads the rest of its answer.
            Err(_) => {}
        }
        Ok(answer?)
    }

    /// The only row of a statement that has one, after its commit.
    pub(crate) async fn fetch_row(&self, query: Query<'_, Postgres, PgArguments>) -> PostgresResult<PgRow> {
        Ok(self.fetch_rows(query).await?.pop().ok_or(sqlx::Error::RowNotFound)?)
    }

    /// A connection for a transaction of several statements.
    pub(crate) async fn hold_connection(&self) -> PostgresResult<HeldConnection<'_>> {
        Ok(HeldConnection { taken: self.take_connection().await?, warm: self })
    }

    /// The same for calls off the hot path: a connection of the pool, which returns to it.
    pub(crate) async fn hold_pooled(&self) -> PostgresResult<HeldConnection<'_>> {
        let _waiting = PoolWaiter::of(&self.waiting);
        Ok(HeldConnection { taken: self.acquire_pooled().await?, warm: self })
    }

    /// Returns everything to the pool.
    pub(crate) fn return_all(&self) {
        let given_back = std::mem::take(&mut *self.lock_idle());
        drop(given_back);
    }

    async fn take_connection(&self) -> PostgresResult<IdleConnection> {
        let warm = self.lock_idle().pop();
        if let Some(idle) = warm.filter(|idle| idle.since.elapsed() < WARM_FOR) {
            return Ok(idle);
        }
        let _waiting = PoolWaiter::of(&self.waiting);
        self.acquire_pooled().await
    }

    async fn acquire_pooled(&self) -> PostgresResult<IdleConnection> {
        let connection = self.pool.acquire().await?;
        Ok(IdleConnection { connection, since: Instant::now(), is_beginning: false })
    }

    fn put_back(&self, taken: IdleConnection) {
        let mut idle = self.lock_idle();
        let wanted = self.waiting.load(Ordering::Relaxed) > 0 || self.pool.is_closed();
        if idle.len() < self.most && !wanted {
            idle.push(taken);
        }
    }

    fn lock_idle(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection for transactions. Unless it is kept it returns to the pool, which tests it and rolls back
/// what was not committed. All transactions begin here.
#[derive(Debug)]
pub(crate) struct HeldConnection<'w> {
    taken: IdleConnection,
    warm: &'w WarmConnections,
}

impl HeldConnection<'_> {
    /// Begins a transaction. Where that fails on a warm connection, its server may have been restarted: then
    /// all of them are tested.
    pub(crate) async fn begin(&mut self) -> PostgresResult<PgTransaction<'_>> {
        let Self { taken, warm } = self;
        taken.is_beginning = true;
        let begun = taken.connection.begin().await;
        taken.is_beginning = begun.is_err();
        if let Err(error) = &begun
            && ends_connection(error)
        {
            warm.return_all();
        }
        Ok(begun?)
    }

    /// Its transaction was committed, or rolled back, and the answer has arrived.
    pub(crate) fn return_warm(self) {
        self.warm.put_back(self.taken);
    }
}

/// Whether the connection, and so perhaps the server, is gone.
fn ends_connection(error: &sqlx::Error) -> bool {
    match error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>()) {
        Some(error) => matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use millstream_testkit::{TestProxy, postgres};
    use sqlx::{Connection, PgConnection, Row};

    use crate::connect::{PostgresOptions, PostgresStore};

    /// One connection: the next caller gets the state that the previous one left.
    #[tokio::test]
    async fn dropped_begin_leaves_no_open_transaction() {
        let database = postgres::private_database().await;
        let (_proxy, url) = TestProxy::on_the_way(&database.url).await;
        let options = PostgresOptions { max_connections: 1, ..PostgresOptions::default() };
        let store = PostgresStore::connect(&url, options).await.unwrap();
        sqlx::raw_sql("CREATE TABLE notes (n BIGINT)").execute(&store.pool).await.unwrap();
        let mut other = PgConnection::connect(&database.url).await.unwrap();
        for (round, is_lent) in [false, true].into_iter().cycle().take(20).enumerate() {
            let mut held = if is_lent {
                store.warm.hold_pooled().await.unwrap()
            } else {
                store.warm.hold_connection().await.unwrap()
            };
            {
                let mut beginning = std::pin::pin!(held.begin());
                assert!(poll!(&mut beginning).is_pending());
            }
            drop(held);
            let round = i64::try_from(round).unwrap();
            store.warm.fetch_rows(sqlx::query("INSERT INTO notes VALUES ($1)").bind(round)).await.unwrap();
            let found =
                sqlx::query("SELECT count(*) AS found FROM notes").fetch_one(&mut other).await.unwrap();
            assert_eq!(found.get::<i64, _>("found"), round + 1, "it was answered and is not there");
        }
        store.close().await;
    }
}

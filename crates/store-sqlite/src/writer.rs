//! The one connection that writes, on a thread of its own: group commit.
//!
//! Calls queue for it in the order of their arrival. All calls that have queued up while the last commit was
//! being synced share the next transaction, and so the next sync: each call in turn sees the writes of the
//! ones before it, and all are answered after the commit. If one of them fails, everything is rolled back and
//! each is run again alone, so that a failing call affects no other; therefore a call is a function that can
//! be run twice.
//!
//! A call waits for its turn for a limited time. One that times out, or whose caller has gone, before its
//! turn is never run; one whose turn has come is run and answered, even if the caller has gone.
//!
//! Begins with `BEGIN IMMEDIATE`: a deferred transaction that upgrades to a write fails at once when another
//! one has written meanwhile, whatever the busy timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use millstream_store::{StoreError, StoreResult};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::errors::{SqliteFailure, SqliteResult};

/// Batch size: how many calls share one transaction at most, so that the first does not wait long for the
/// last.
const GROUP: usize = 32;
/// Bound of the queue, for backpressure. There are as many callers as there are writing tasks in the process;
/// beyond this bound they wait in front of the queue, with the same timeout.
const QUEUE: usize = 256;

#[derive(Debug)]
pub(crate) struct SqliteWriter {
    queue: mpsc::Sender<WriterMessage>,
    patience: Duration,
}

enum WriterMessage {
    Call(Box<dyn WriterCall>),
    Close(oneshot::Sender<()>),
}

impl SqliteWriter {
    pub(crate) fn start(connection: Connection, patience: Duration) -> StoreResult<Self> {
        let (queue, calls) = mpsc::channel(QUEUE);
        std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || serve_queue(connection, calls))
            .map_err(|error| StoreError::Unavailable(format!("cannot start the writer: {error}")))?;
        Ok(Self { queue, patience })
    }

    /// Run `work` in a transaction. Its writes are durable when this returns; if it fails, nothing is
    /// written.
    pub(crate) async fn run<T, W>(&self, work: W) -> StoreResult<T>
    where
        T: Send + 'static,
        W: Fn(&Connection) -> SqliteResult<T> + Send + 'static,
    {
        let turn = Arc::new(WriterTurn::default());
        let (answer, answered) = oneshot::channel();
        let call = QueuedCall { work, turn: Arc::clone(&turn), outcome: None, answer };
        let answered = async {
            self.queue.send(WriterMessage::Call(Box::new(call))).await.map_err(|_| closed_error())?;
            answered.await.map_err(|_| closed_error())?
        };
        tokio::pin!(answered);
        match tokio::time::timeout(self.patience, &mut answered).await {
            Ok(outcome) => outcome,
            Err(_) if turn.give_up() => {
                Err(StoreError::Unavailable(format!("waited {:?} for the writer", self.patience)))
            }
            Err(_) => answered.await,
        }
    }

    /// Finish the queued calls and close the connection.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.queue.send(WriterMessage::Close(done)).await.is_ok() {
            // An error means that the thread has gone, and the connection with it.
            let _ = closed.await;
        }
    }
}

fn closed_error() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

/// Decides the race between the writer, which begins the call, and the caller, whose wait times out.
#[derive(Debug, Default)]
struct WriterTurn(AtomicU8);

impl WriterTurn {
    const WAITING: u8 = 0;
    const COME: u8 = 1;
    const GIVEN_UP: u8 = 2;

    fn claim_turn(&self) -> bool {
        self.leave_waiting(Self::COME)
    }

    fn give_up(&self) -> bool {
        self.leave_waiting(Self::GIVEN_UP)
    }

    fn leave_waiting(&self, to: u8) -> bool {
        self.0.compare_exchange(Self::WAITING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A call in the queue, of any result type.
trait WriterCall: Send {
    /// Claim the call's turn; `false` when its caller has timed out or gone.
    fn begin(&self) -> bool;
    /// Run it, store its outcome, and return whether it may be committed.
    fn run(&mut self, connection: &Connection) -> CallResult;
    /// Send its outcome, or the error of the commit.
    fn answer(self: Box<Self>, committed: std::result::Result<(), &StoreError>);
}

enum CallResult {
    Well,
    Badly,
}

struct QueuedCall<T, W> {
    work: W,
    turn: Arc<WriterTurn>,
    outcome: Option<SqliteResult<T>>,
    answer: oneshot::Sender<StoreResult<T>>,
}

impl<T, W> WriterCall for QueuedCall<T, W>
where
    T: Send,
    W: Fn(&Connection) -> SqliteResult<T> + Send,
{
    fn begin(&self) -> bool {
        !self.answer.is_closed() && self.turn.claim_turn()
    }

    fn run(&mut self, connection: &Connection) -> CallResult {
        let outcome = (self.work)(connection);
        let ran = if outcome.is_ok() { CallResult::Well } else { CallResult::Badly };
        self.outcome = Some(outcome);
        ran
    }

    fn answer(self: Box<Self>, committed: std::result::Result<(), &StoreError>) {
        let outcome = match (committed, self.outcome) {
            (Ok(()), Some(outcome)) => outcome.map_err(StoreError::from),
            (Err(error), Some(_) | None) => Err(error.clone()),
            (Ok(()), None) => Err(closed_error()),
        };
        // The caller may have gone.
        let _ = self.answer.send(outcome);
    }
}

fn serve_queue(connection: Connection, mut queue: mpsc::Receiver<WriterMessage>) {
    let mut closing = None;
    while closing.is_none()
        && let Some(message) = queue.blocking_recv()
    {
        match message {
            WriterMessage::Close(done) => closing = Some(done),
            WriterMessage::Call(first) => {
                if first.begin() {
                    closing = run_group(&connection, first, &mut queue);
                }
            }
        }
    }
    drop(connection);
    if let Some(done) = closing {
        // The connection is closed even if the closing caller has gone.
        let _ = done.send(());
    }
}

/// The first call waits for the lock on the file, which another process may hold. Calls that arrive meanwhile
/// join its transaction; until then they may time out. Returns the caller that asked to close, if there is
/// one.
fn run_group(
    connection: &Connection,
    first: Box<dyn WriterCall>,
    queue: &mut mpsc::Receiver<WriterMessage>,
) -> Option<oneshot::Sender<()>> {
    let mut group = vec![first];
    if let Err(failure) = begin_immediate(connection) {
        answer_group(group, Err(failure));
        return None;
    }
    let mut closing = None;
    while group.len() < GROUP
        && closing.is_none()
        && let Ok(message) = queue.try_recv()
    {
        match message {
            WriterMessage::Close(done) => closing = Some(done),
            WriterMessage::Call(call) => group.extend(call.begin().then_some(call)),
        }
    }
    run_together(connection, group);
    closing
}

/// The transaction has begun.
fn run_together(connection: &Connection, mut group: Vec<Box<dyn WriterCall>>) {
    let failed = group.iter_mut().any(|call| match call.run(connection) {
        CallResult::Well => false,
        CallResult::Badly => true,
    });
    if !failed {
        return answer_group(group, commit_group(connection));
    }
    match roll_back(connection) {
        Ok(()) if group.len() > 1 => group.into_iter().for_each(|call| run_alone(connection, call)),
        rolled_back => answer_group(group, rolled_back),
    }
}

fn run_alone(connection: &Connection, call: Box<dyn WriterCall>) {
    match begin_immediate(connection) {
        Ok(()) => run_together(connection, vec![call]),
        Err(failure) => answer_group(vec![call], Err(failure)),
    }
}

fn answer_group(group: Vec<Box<dyn WriterCall>>, committed: SqliteResult<()>) {
    let committed = committed.map_err(StoreError::from);
    for call in group {
        call.answer(committed.as_ref().copied());
    }
}

fn begin_immediate(connection: &Connection) -> SqliteResult<()> {
    Ok(connection.prepare_cached("BEGIN IMMEDIATE")?.execute(()).map(|_| ())?)
}

/// After a failed commit no transaction is left open, so that the next one can begin.
fn commit_group(connection: &Connection) -> SqliteResult<()> {
    let committed = connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute(()));
    committed.map(|_| ()).map_err(|error| {
        let failure = SqliteFailure::from(error);
        if let Err(error) = roll_back(connection) {
            tracing::error!(%error, "a commit failed and cannot be rolled back");
        }
        failure
    })
}

/// Some errors have rolled back already.
fn roll_back(connection: &Connection) -> SqliteResult<()> {
    if connection.is_autocommit() {
        return Ok(());
    }
    Ok(connection.prepare_cached("ROLLBACK")?.execute(()).map(|_| ())?)
}

//! A worker's place in the line, and the leases of its tasks until they are delivered.
//!
//! A worker may disconnect at any moment: its time is up, its connection breaks, or the store fails while
//! its tasks are prepared. Its leases would then stay unused until they expire, after five minutes for
//! most. Both types release them on drop.

use millstream_store::action_store::{Lease, LeasedAction};
use tokio::sync::oneshot;

use super::board::Board;

/// A worker's place in the line; dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(super) leased: oneshot::Receiver<Vec<LeasedAction>>,
    pub(super) board: Board,
}

/// Leased tasks that are not delivered yet.
#[derive(Debug)]
#[must_use = "undelivered leases are released on drop"]
pub(crate) struct Undelivered {
    leases: Vec<Lease>,
    board: Board,
}

impl Ticket {
    /// The leased tasks; none when the board has closed, or for a polling worker.
    pub(crate) async fn leased(&mut self) -> (Vec<LeasedAction>, Undelivered) {
        let leased = (&mut self.leased).await.unwrap_or_default();
        let leases = leased.iter().map(|action| action.lease.clone()).collect();
        (leased, Undelivered { leases, board: self.board.clone() })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leased.close();
        // Leased at the same moment in which the worker left.
        if let Ok(leased) = self.leased.try_recv() {
            self.board.give_back(leased.into_iter().map(|action| action.lease));
        }
    }
}

impl Undelivered {
    /// Marks the tasks as delivered: the answer is on its way.
    pub(crate) fn delivered(mut self) {
        self.leases.clear();
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        if !self.leases.is_empty() {
            self.board.give_back(self.leases.drain(..));
        }
    }
}

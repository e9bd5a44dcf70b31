//! A worker's place in the line, and the leases of its tasks until they are delivered.
//!
//! A worker may disconnect at any moment: its time is up, its connection breaks, or the store fails while
//! its tasks are prepared. Its leases would then stay unused until they expire, after five minutes for
//! most. Both types release them on drop.

use millstream_store::action_store::{Lease, LeasedAction};
use tokio::sync::oneshot;

use super::board::WorkerBoard;

/// A worker's place in the line; dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct LeaseTicket {
    pub(super) leased: oneshot::Receiver<Vec<LeasedAction>>,
    pub(super) board: WorkerBoard,
}

/// Leased tasks that are not delivered yet.
#[derive(Debug)]
#[must_use = "undelivered leases are released on drop"]
pub(crate) struct UndeliveredLeases {
    leases: Vec<Lease>,
    board: WorkerBoard,
}

impl LeaseTicket {
    /// The leased tasks; none when the board has closed, or for a polling worker.
    pub(crate) async fn wait_for_lease(&mut self) -> (Vec<LeasedAction>, UndeliveredLeases) {
        let leased = (&mut self.leased).await.unwrap_or_default();
        let leases = leased.iter().map(|action| action.lease.clone()).collect();
        (leased, UndeliveredLeases { leases, board: self.board.clone() })
    }
}

impl Drop for LeaseTicket {
    fn drop(&mut self) {
        self.leased.close();
        // Leased at the same moment in which the worker left.
        if let Ok(leased) = self.leased.try_recv() {
            self.board.release_leases(leased.into_iter().map(|action| action.lease));
        }
    }
}

impl UndeliveredLeases {
    /// Marks the tasks as delivered: the answer is on its way.
    pub(crate) fn mark_delivered(mut self) {
        self.leases.clear();
    }
}

impl Drop for UndeliveredLeases {
    fn drop(&mut self) {
        if !self.leases.is_empty() {
            self.board.release_leases(self.leases.drain(..));
        }
    }
}

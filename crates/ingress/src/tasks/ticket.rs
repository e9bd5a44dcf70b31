//! A worker's place in the line, and what was leased for it until it is delivered.
//!
//! A worker may leave at any moment: its time is up, its connection breaks, the store fails while its tasks
//! are made ready. What was leased for it meanwhile would be nobody's until the lease ends, five minutes for
//! most. Dropped on the way, both of these give it back.

use millstream_store::action_store::{Lease, LeasedAction};
use tokio::sync::oneshot;

use super::board::Board;

/// Dropping it is going away.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(super) leased: oneshot::Receiver<Vec<LeasedAction>>,
    pub(super) board: Board,
}

/// Leased, and not in the worker's hands yet.
#[derive(Debug)]
#[must_use = "what is not delivered is given back"]
pub(crate) struct Undelivered {
    leases: Vec<Lease>,
    board: Board,
}

impl Ticket {
    /// What there is; nothing when the board has closed, or for one who does not wait.
    pub(crate) async fn leased(&mut self) -> (Vec<LeasedAction>, Undelivered) {
        let leased = (&mut self.leased).await.unwrap_or_default();
        let leases = leased.iter().map(|action| action.lease.clone()).collect();
        (leased, Undelivered { leases, board: self.board.clone() })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leased.close();
        // Handed over in the moment in which nobody looked any more.
        if let Ok(leased) = self.leased.try_recv() {
            self.board.give_back(leased.into_iter().map(|action| action.lease));
        }
    }
}

impl Undelivered {
    /// The answer is on its way.
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

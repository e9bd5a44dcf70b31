//! Work for external workers: who waits for it, how it is handed out, and what they tell about it.
//!
//! Reading order: [`board`] (who waits, and the one loop that leases for all of them), [`ticket`] (a place in
//! that line), [`seen_workers`] (who came lately), [`hand_out`] (what
//! has to be done to a leased task before somebody may have it), [`handed`] (what is remembered of it),
//! [`report`] (heartbeats and outcomes, many in one write), [`why`] (why nobody takes a task).

pub(crate) mod board;
pub(crate) mod hand_out;
pub(crate) mod handed;
pub(crate) mod report;
mod seen_workers;
pub(crate) mod ticket;
pub(crate) mod why;

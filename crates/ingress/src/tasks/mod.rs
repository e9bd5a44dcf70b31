//! Tasks for external workers: waiting, delivery, and reports.
//!
//! Reading order: [`board`] (waiting workers, and the single loop that leases for all of them), [`ticket`]
//! (a worker's place in the line), [`seen_workers`] (workers that arrived lately), [`hand_out`]
//! (preparation of a leased task for delivery), [`handed`] (the cache of handed out tasks), [`report`]
//! (heartbeats and outcomes, batched), [`why`] (why no worker takes a task).

pub(crate) mod board;
pub(crate) mod hand_out;
pub(crate) mod handed;
pub(crate) mod report;
mod seen_workers;
pub(crate) mod ticket;
pub(crate) mod why;

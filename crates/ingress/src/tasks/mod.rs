//! Tasks for external workers: waiting, delivery, and reports.
//!
//! Reading order: [`board`] (waiting workers, and the single loop that leases for all of them), [`ticket`]
//! (a worker's place in the line), [`seen_workers`] (workers that arrived lately), [`delivery`]
//! (preparation of a leased task for delivery), [`handed_out_tasks`] (the cache of handed out tasks), [`report`]
//! (heartbeats and outcomes, batched), [`diagnosis`] (why no worker takes a task).

pub(crate) mod board;
pub(crate) mod delivery;
pub(crate) mod diagnosis;
pub(crate) mod handed_out_tasks;
pub(crate) mod report;
mod seen_workers;
pub(crate) mod ticket;

//! Tasks for external workers: waiting, delivery, and reports.
//!
//! Reading order: [`lease_request`] (the limits of a request for tasks), [`board`] (waiting workers, and the
//! single loop that leases for all of them), [`ticket`] (a worker's place in the line), [`seen_workers`]
//! (workers that arrived lately), [`delivery`] (preparation of a leased task for delivery),
//! [`handed_out_tasks`] (the cache of handed out tasks), [`held_tasks`] (the task that a worker reports
//! about), [`outcome`] (its end), [`report`] (heartbeats and outcomes, batched), [`diagnosis`] (why no worker
//! takes a task).

pub(crate) mod board;
pub(crate) mod delivery;
mod deps;
pub(crate) mod diagnosis;
pub(crate) mod handed_out_tasks;
pub(crate) mod held_tasks;
pub(crate) mod lease_request;
pub(crate) mod outcome;
pub(crate) mod report;
mod seen_workers;
pub(crate) mod ticket;

pub(crate) use deps::TaskDeps;

//! From a doorbell to its acknowledgement: the part of a worker that decides.
//!
//! ```text
//! reader, reclaim → consume (inbox) → process: lock and load → decide and commit → post_commit: … → ack
//! ```
//!
//! Reading order: [`reader`] and [`reclaim`] (doorbells arrive), [`consume`] and [`inbox`] (held, grouped by
//! execution, visited in batches), [`decider`] (what all visits share), [`process`] (one visit), [`visit_locks`],
//! [`load`], [`poison`], [`commit`] (decides and writes a group), [`commit_builder`] (decisions become rows) and
//! [`post_commit`].
//! Performing is known here only as [`CommitLeasing`](crate::leasing::CommitLeasing).

mod commit;
mod commit_builder;
pub(crate) mod consume;
mod decider;
pub(crate) mod ended_graphs;
mod graph_log;
pub(crate) mod inbox;
mod load;
mod poison;
mod post_commit;
mod process;
pub(crate) mod queueing_times;
pub(crate) mod reader;
pub(crate) mod reclaim;
mod state_cache;
mod tenant_shares;
mod visit_locks;

pub(crate) use decider::MailboxDecider;

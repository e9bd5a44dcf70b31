//! From a doorbell to its acknowledgement: the part of a worker that decides.
//!
//! ```text
//! reader, reclaim → consume (inbox) → process: lock and load → decide → commit → post_commit: … → ack
//! ```
//!
//! Reading order: [`reader`] and [`reclaim`] (doorbells arrive), [`consume`] and [`inbox`] (held, grouped by
//! execution, visited in batches), [`decider`] (what all visits share), [`process`] (one visit), [`visit_locks`],
//! [`load`], [`poison`], [`decide`], [`commit_builder`] (decisions become rows), [`commit`] and [`post_commit`].
//! Performing is known here only as [`CommitLeasing`](crate::leasing::CommitLeasing).

pub(crate) mod commit;
pub(crate) mod commit_builder;
pub(crate) mod consume;
pub(crate) mod decide;
pub(crate) mod decider;
pub(crate) mod ended_graphs;
pub(crate) mod graph_log;
pub(crate) mod inbox;
pub(crate) mod load;
pub(crate) mod poison;
pub(crate) mod post_commit;
pub(crate) mod process;
pub(crate) mod queueing_times;
pub(crate) mod reader;
pub(crate) mod reclaim;
pub(crate) mod state_cache;
pub(crate) mod tenant_shares;
pub(crate) mod visit_locks;

pub(crate) use decider::MailboxDecider;

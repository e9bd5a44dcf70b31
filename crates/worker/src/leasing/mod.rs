//! What this worker may lease and what it holds: slots, leases, and the hand-over of leased actions.
//!
//! Deciding and performing meet here and nowhere else. A commit reserves capacity before it is sent and hands
//! the actions that it leased over afterwards ([`commit_leasing`]); settling and the duties do the same with
//! [`action_leasing`]. The performers take the leased actions from a channel ([`leased_work`]).
//!
//! Reading order: [`action_slots`], [`node_slots`] and [`tenant_slots`] (capacity), [`leases`] and [`pulse`]
//! (what is held), [`renewal`], [`due_tenants`] (whose actions are leased next), [`ready_nodes`] (the graph
//! nodes of a commit), [`settle_backlog`] (backpressure).

mod action_leasing;
pub(crate) mod action_slots;
mod commit_leasing;
pub(crate) mod due_tenants;
mod leased_work;
pub(crate) mod leases;
pub(crate) mod node_slots;
pub(crate) mod pulse;
mod ready_nodes;
pub(crate) mod renewal;
mod settle_backlog;
pub(crate) mod tenant_slots;

pub(crate) use action_leasing::ActionLeasing;
pub(crate) use commit_leasing::{CommitLeasing, CommitReservation};
pub(crate) use leased_work::LeasedWork;

//! A leased action with its lease and slot, on its way from the lease to the performers.

use millstream_model::id::Name;
use millstream_store::action_store::LeasedAction;

use super::action_slots::WorkSlot;
use super::leases::{HeldLease, LeaseOwner};

#[derive(Debug)]
pub(crate) struct LeasedWork {
    pub(crate) action: LeasedAction,
    pub(crate) held: HeldLease,
    pub(crate) slot: WorkSlot,
}

/// What a leased action belongs to.
pub(super) fn lease_owner(action: &LeasedAction) -> LeaseOwner {
    if action.definition.name == Name::graph() { LeaseOwner::Graph } else { LeaseOwner::Machine }
}

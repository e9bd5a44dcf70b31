//! Assignment selection, shared by every store: which person may have which opening of which queue, and the
//! change that an assignment makes to its item. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_core::assignment::next::{Asking, Idle, Load, Profile, eligible};
use millstream_core::assignment::{Change, Input, Setting, Stepped, step};
use millstream_core::id::Name;
use millstream_core::placement::Queue;
use millstream_core::time::Timestamp;

use crate::assignments::Caller;
use crate::execution_store::LeaseGrant;
use crate::item_store::{ItemCommit, LoadedItem};
use crate::queue_store::QueueView;

/// The openings that a caller may have, or the reason why there are none. Requested queues that do not exist
/// are ignored.
pub fn asking(
    caller: &Caller,
    profile: &Profile,
    queues: &[&QueueView],
    loads: &BTreeMap<Name, Load>,
) -> Result<Asking, Idle> {
    let mut open = BTreeSet::new();
    let mut idle = Idle::NoQueue;
    for view in queues {
        let load = loads.get(&view.config.name).copied().unwrap_or_default();
        match eligible(&view.config, view.state, profile, load) {
            Ok(()) => {
                open.insert(view.config.name.clone());
            }
            Err(why) => idle = idle.min(why),
        }
    }
    if open.is_empty() {
        return Err(idle);
    }
    Ok(Asking { person: caller.person.clone(), skills: profile.skills.clone(), queues: open })
}

/// Whether the caller asks for work of this queue.
pub fn wants(caller: &Caller, queue: &Name) -> bool {
    caller.queues.is_empty() || caller.queues.contains(queue)
}

/// The change by which a caller gets an opening of an item; `None` if the item has no opening for the caller
/// after all.
pub fn give(loaded: &LoadedItem, queue: &QueueView, caller: &Caller, now: Timestamp) -> Option<ItemCommit> {
    let setting = Setting { queue: &queue.config, state: queue.state, escalates_to: None };
    let input = Input::Assign { person: caller.person.clone(), next: caller.next };
    match step(&loaded.work, setting, &input, now) {
        Ok(Stepped::Changed(change)) => Some(ItemCommit::of(loaded, *change, None)),
        Ok(Stepped::Repeated) | Err(_) => None,
    }
}

/// The item as a commit leaves it, for the next change of the same transaction.
pub fn after(commit: &ItemCommit) -> LoadedItem {
    let Change { work, .. } = commit.change.clone();
    LoadedItem { key: commit.key.clone(), version: commit.expected + 1, work }
}

/// A grant without slots: settling what people did leases nothing.
pub fn no_slots() -> LeaseGrant {
    LeaseGrant { slots: 0, ttl: Duration::from_secs(30), queues: [Queue::engine()].into() }
}

//! Handing out, as far as it is the same on every store: who may have what of which queue, and what becomes of an
//! item that is given to somebody. Pure.

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

/// Where a caller may get something, or why nowhere. Queues that were asked for and are not there are passed over.
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

/// Whether the caller wants something of this queue.
pub fn wants(caller: &Caller, queue: &Name) -> bool {
    caller.queues.is_empty() || caller.queues.contains(queue)
}

/// The change by which a caller gets an opening of an item; `None` if it has none for them after all.
pub fn give(loaded: &LoadedItem, queue: &QueueView, caller: &Caller, now: Timestamp) -> Option<ItemCommit> {
    let setting = Setting { queue: &queue.config, state: queue.state, escalates_to: None };
    let input = Input::Assign { person: caller.person.clone(), next: caller.next };
    match step(&loaded.work, setting, &input, now) {
        Ok(Stepped::Changed(change)) => Some(ItemCommit::of(loaded, *change, None)),
        Ok(Stepped::Repeated) | Err(_) => None,
    }
}

/// The item as a commit leaves it, for the next one of the same transaction.
pub fn after(commit: &ItemCommit) -> LoadedItem {
    let Change { work, .. } = commit.change.clone();
    LoadedItem { key: commit.key.clone(), version: commit.expected + 1, work }
}

/// Settling for others: nothing is leased by those who settle what people did.
pub fn no_slots() -> LeaseGrant {
    LeaseGrant { slots: 0, ttl: Duration::from_secs(30), queues: [Queue::engine()].into() }
}

//! Assignment selection, shared by every store: which person may have which opening of which queue, and the
//! change that an assignment makes to its item. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::Name;
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::{
    AskingPerson, PersonIdleReason, PersonLoad, PersonProfile, check_eligibility,
};
use millstream_people::assignment::{ItemChange, ItemInput, ItemQueueContext, ItemStepOutcome, step_item};

use crate::assignments::AssignmentCaller;
use crate::execution_store::LeaseGrant;
use crate::item_store::{ItemCommit, LoadedItem};
use crate::queue_store::QueueView;

/// The openings that a caller may have, or the reason why there are none. Requested queues that do not exist
/// are ignored.
pub fn eligible_queues(
    caller: &AssignmentCaller,
    profile: &PersonProfile,
    queues: &[&QueueView],
    loads: &BTreeMap<Name, PersonLoad>,
) -> Result<AskingPerson, PersonIdleReason> {
    let mut open = BTreeSet::new();
    let mut idle = PersonIdleReason::NoQueue;
    for view in queues {
        let load = loads.get(&view.config.name).copied().unwrap_or_default();
        match check_eligibility(&view.config, view.state, profile, load) {
            Ok(()) => {
                open.insert(view.config.name.clone());
            }
            Err(why) => idle = idle.min(why),
        }
    }
    if open.is_empty() {
        return Err(idle);
    }
    Ok(AskingPerson { person: caller.person.clone(), skills: profile.skills.clone(), queues: open })
}

/// Whether the caller asks for work of this queue.
pub fn requests_queue(caller: &AssignmentCaller, queue: &Name) -> bool {
    caller.queues.is_empty() || caller.queues.contains(queue)
}

/// The change by which a caller gets an opening of an item; `None` if the item has no opening for the caller
/// after all.
pub fn assign_opening(
    loaded: &LoadedItem,
    queue: &QueueView,
    caller: &AssignmentCaller,
    now: Timestamp,
) -> Option<ItemCommit> {
    let setting = ItemQueueContext { queue: &queue.config, state: queue.state, escalates_to: None };
    let input = ItemInput::Assign { person: caller.person.clone(), next: caller.next };
    match step_item(&loaded.work, setting, &input, now) {
        Ok(ItemStepOutcome::Changed(change)) => Some(ItemCommit::of(loaded, *change, None)),
        Ok(ItemStepOutcome::Repeated) | Err(_) => None,
    }
}

/// The item as a commit leaves it, for the next change of the same transaction.
pub fn item_after_commit(commit: &ItemCommit) -> LoadedItem {
    let ItemChange { work, .. } = commit.change.clone();
    LoadedItem { key: commit.key.clone(), version: commit.expected + 1, work }
}

/// A grant without slots: settling what people did leases nothing.
pub fn grant_without_slots() -> LeaseGrant {
    LeaseGrant { slots: 0, ttl: Duration::from_secs(30), queues: [ActionQueue::engine_for_all()].into() }
}

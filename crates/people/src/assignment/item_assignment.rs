//! An assignment: one item assigned to one person once.

use millstream_model::id::{AssignmentId, ItemId, Name, PersonId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::status::AssignmentStatus;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemAssignment {
    pub id: AssignmentId,
    pub item: ItemId,
    pub person: PersonId,
    /// The queue at assignment; the item may have moved since.
    pub queue: Name,
    pub status: AssignmentStatus,
    /// While pending: start before it; in progress: submit before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// How often the person has started this item, this time included.
    pub attempts: u32,
    /// How often the person was assigned this item, this time included.
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
    /// The completed assignment that this one corrects. A correction occupies no slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refers_to: Option<AssignmentId>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped_at: Option<Timestamp>,
    pub place: SlotState,
    /// The assignment was revoked: its person does not get the item again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// Where the slot of an assignment is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    /// With this assignment, even after its end: the queue's configuration leaves the reassignment to an
    /// operator.
    Here,
    /// Reassigned, or an opening.
    GivenOn,
}

impl ItemAssignment {
    /// Whether it occupies a slot of its item.
    pub fn has_slot(&self) -> bool {
        self.refers_to.is_none() && self.place == SlotState::Here
    }
}

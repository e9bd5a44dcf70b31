//! One assignment: one time that one person was given one item.

use serde::{Deserialize, Serialize};

use super::status::AssignmentStatus;
use crate::id::{AssignmentId, ItemId, Name, PersonId};
use crate::raw::RawJson;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub id: AssignmentId,
    pub item: ItemId,
    pub person: PersonId,
    /// The queue that it was given in; the item may have moved on since.
    pub queue: Name,
    pub status: AssignmentStatus,
    /// When it expires: to be started before it while it is pending, to be handed in before it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// How often the person has started with this item, this time included.
    pub attempts: u32,
    /// How often the person was given this item, this time included.
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
    /// The completed assignment that this one is to correct. A correction takes no place.
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
    pub place: Place,
    /// Its person is not to get the item again: it was taken back from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// Where the place is that an assignment has, or had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// With this assignment, also after it has ended: the queue says that nobody is given it until an operator
    /// does so.
    Here,
    /// With another assignment, or open.
    GivenOn,
}

impl Assignment {
    /// Whether it fills, or could fill, a place of its item.
    pub fn has_place(&self) -> bool {
        self.refers_to.is_none() && self.place == Place::Here
    }
}

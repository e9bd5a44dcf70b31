//! The import of items into a queue: as one item, as an array, or as lines.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scalar;

/// One item: alone, in an array, or as one line of application/x-ndjson.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NewItem", deny_unknown_fields)]
pub struct NewWorkItem {
    /// Derived from the content if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::ItemId>")]
    pub item_id: Option<String>,
    /// Any JSON, at most 256 KiB.
    pub payload: Value,
    /// Overrides the priority of the queue; the highest comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1_000_000, max = 1_000_000))]
    pub priority: Option<i32>,
    /// Skills that people must have, in addition to those of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<scalar::Name>>", length(max = 64))]
    pub skills: Option<Vec<String>>,
    /// Overrides the overlap of the queue: number of different people who work on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub overlap: Option<u32>,
    /// Overrides the deadline of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Time>")]
    pub due_at: Option<Timestamp>,
}

impl NewWorkItem {
    /// With the values of its queue, and an id that is derived from its content.
    pub fn of(payload: Value) -> Self {
        Self { item_id: None, payload, priority: None, skills: None, overlap: None, due_at: None }
    }

    /// A caller-supplied id: another item with this id is refused.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.item_id = Some(id.into());
        self
    }

    /// The highest comes first.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Adds a skill that people must have.
    #[must_use]
    pub fn skill(mut self, skill: impl Into<String>) -> Self {
        self.skills.get_or_insert_default().push(skill.into());
        self
    }

    /// Number of different people who work on it.
    #[must_use]
    pub fn overlap(mut self, people: u32) -> Self {
        self.overlap = Some(people);
        self
    }

    #[must_use]
    pub fn due_at(mut self, at: Timestamp) -> Self {
        self.due_at = Some(at);
        self
    }
}

/// One item, or an array of items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "NewItems")]
pub enum NewWorkItems {
    One(Box<NewWorkItem>),
    Many(#[schemars(length(max = 1000))] Vec<NewWorkItem>),
}

/// The outcome of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ImportReport {
    /// Items that were read.
    pub read: u64,
    pub created: u64,
    /// Items that were in the queue already, with identical content.
    pub repeated: u64,
    pub refused_count: u64,
    /// The first of the refused items.
    #[schemars(length(max = 1000))]
    pub refused: Vec<RefusedItem>,
    /// Ids of the items that are in the queue now, in the order of the request; absent for lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<scalar::ItemId>>")]
    pub item_ids: Option<Vec<String>>,
}

/// An item that an import refused, with all its problems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RefusedItem {
    /// Index among the items that were read, from 0.
    pub index: u64,
    /// Line of the body, from 1; absent for JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub line: Option<u64>,
    /// Absent if it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::ItemId>")]
    pub item_id: Option<String>,
    pub problems: Vec<ItemProblem>,
}

/// A problem of an item, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct ItemProblem {
    /// Empty for the whole item.
    pub path: String,
    pub message: String,
}

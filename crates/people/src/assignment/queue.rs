//! The configuration of a work queue for people.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_model::document::SourceFormat;
use millstream_model::id::{Name, PersonId};
use millstream_model::problem::ValidationProblems;
use millstream_model::raw::RawJson;
use serde::Serialize;

use super::queue_read;
use super::queue_write::StoredQueueConfig;

/// The validated configuration of a queue; `to_json` is its stored form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// Version of this layout.
    pub format: u8,
    pub name: Name,
    /// Time limit of an assignment, from its start.
    pub timeout: Duration,
    /// Time limit for starting an assignment; unlimited if `None`.
    pub pre_assignment_timeout: Option<Duration>,
    /// Maximum number of assignments of one item to one person, started or not.
    pub max_attempts_per_person: u32,
    /// Maximum number of assignments of one item, over all persons.
    pub max_attempts_total: u32,
    pub reassign_expired: bool,
    pub reassign_skipped: bool,
    pub skip_requires_reason: bool,
    pub people: EligiblePersons,
    /// Skills required of every person in this queue, in addition to those of an item.
    pub skills: BTreeSet<Name>,
    /// Number of different persons who work on one item.
    pub overlap: u32,
    pub per_person: PersonLimits,
    /// Default priority of items; higher is sooner.
    pub priority: i32,
    /// Default deadline of an item, measured from its import.
    pub due: Option<Duration>,
    pub escalate: Option<EscalationTarget>,
    /// JSON Schema of answers.
    pub schema: Option<RawJson>,
    pub rules: Vec<AnswerRule>,
    /// CEL: the part of an answer that is compared between persons.
    pub agreement: String,
}

/// The persons eligible to work in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EligiblePersons {
    Anyone,
    Listed(BTreeSet<PersonId>),
}

impl EligiblePersons {
    pub fn includes(&self, person: &PersonId) -> bool {
        match self {
            Self::Anyone => true,
            Self::Listed(people) => people.contains(person),
        }
    }
}

impl Serialize for EligiblePersons {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Anyone => serializer.serialize_str("anyone"),
            Self::Listed(people) => people.serialize(serializer),
        }
    }
}

/// A time limit as the stored form and the API have it: rounded up.
pub fn whole_seconds(length: Duration) -> u64 {
    length.as_secs() + u64::from(length.subsec_nanos() > 0)
}

/// Limits of one person in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PersonLimits {
    /// Assignments open at the same time.
    pub open: u32,
    /// Items completed or open, over all time.
    pub total: Option<u32>,
}

/// Replaces the failure of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EscalationTarget {
    /// The item moves to another queue, with its history.
    Queue(Name),
    /// The item ends, and the waiting execution receives this event.
    Event(Name),
}

/// A validation rule for answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnswerRule {
    /// CEL over `answer`, `item` and `person`: true is a problem.
    #[serde(rename = "if")]
    pub condition: String,
    pub message: String,
    /// Path within the answer, for user interfaces.
    pub path: String,
}

impl QueueConfig {
    pub const FORMAT: u8 = 1;
    pub const TIMEOUT: Duration = Duration::from_secs(3600);
    pub const PRE_ASSIGNMENT: Duration = Duration::from_secs(300);
    pub const ATTEMPTS_PER_PERSON: u32 = 3;
    /// Per slot of an item.
    pub const ATTEMPTS_TOTAL: u32 = 5;
    pub const AGREEMENT: &'static str = "answer";

    /// A queue with defaults only.
    pub fn with_defaults(name: Name) -> Self {
        Self {
            format: Self::FORMAT,
            name,
            timeout: Self::TIMEOUT,
            pre_assignment_timeout: Some(Self::PRE_ASSIGNMENT),
            max_attempts_per_person: Self::ATTEMPTS_PER_PERSON,
            max_attempts_total: Self::ATTEMPTS_TOTAL,
            reassign_expired: true,
            reassign_skipped: true,
            skip_requires_reason: false,
            people: EligiblePersons::Anyone,
            skills: BTreeSet::new(),
            overlap: 1,
            per_person: PersonLimits { open: 1, total: None },
            priority: 0,
            due: None,
            escalate: None,
            schema: None,
            rules: Vec::new(),
            agreement: Self::AGREEMENT.to_owned(),
        }
    }

    /// Reads and checks a configuration; an error holds every problem with its path.
    pub fn parse(source: &str, format: SourceFormat) -> Result<Self, ValidationProblems> {
        queue_read::parse_queue(source, format, None)
    }

    /// Like `parse` for a queue whose name is known: the document may omit the name and must not differ from
    /// it.
    pub fn parse_named(source: &str, format: SourceFormat, name: &Name) -> Result<Self, ValidationProblems> {
        queue_read::parse_queue(source, format, Some(name))
    }

    /// Reads the stored form; its expressions are not compiled again.
    pub fn parse_stored(source: &str) -> Result<Self, ValidationProblems> {
        queue_read::parse_stored_queue(source)
    }

    /// The stored form, read back by [`QueueConfig::parse_stored`] of this release and by `parse` of earlier ones.
    pub fn to_json(&self) -> RawJson {
        RawJson::from_value(&StoredQueueConfig(self))
    }
}

//! How a queue treats its items and its people.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::queue_read;
use crate::definition::Format;
use crate::id::{Name, PersonId};
use crate::problem::Problems;
use crate::raw::RawJson;

/// The configuration of a queue, checked. What is stored is its JSON, in which every default is spelled out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueConfig {
    /// Of this layout.
    pub format: u8,
    pub name: Name,
    /// How long a person has, from when they start.
    #[serde(rename = "timeout_seconds", with = "seconds")]
    pub timeout: Duration,
    /// How long a person has to start; for ever if there is none.
    #[serde(with = "optional_seconds")]
    pub pre_assignment_timeout: Option<Duration>,
    /// How often one person is given the same item, started or not.
    pub max_attempts_per_labeler: u32,
    /// How often an item is given to anybody.
    pub max_attempts_total: u32,
    pub reassign_expired: bool,
    pub reassign_skipped: bool,
    pub skip_requires_reason: bool,
    pub people: Eligible,
    /// What everybody who works here must have, on top of what an item asks for.
    pub skills: BTreeSet<Name>,
    /// How many different people work on one item.
    pub overlap: u32,
    pub per_person: PerPerson,
    /// Of items that have none of their own; higher is sooner.
    pub priority: i32,
    /// How long after its import an item has to be done.
    #[serde(with = "optional_seconds")]
    pub due: Option<Duration>,
    pub escalate: Option<Escalate>,
    /// JSON Schema of answers.
    pub schema: Option<RawJson>,
    pub rules: Vec<Rule>,
    /// CEL: what of an answer is compared with the others' answers.
    pub agreement: String,
}

/// Who may work in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eligible {
    Anyone,
    Listed(BTreeSet<PersonId>),
}

impl Eligible {
    pub fn includes(&self, person: &PersonId) -> bool {
        match self {
            Self::Anyone => true,
            Self::Listed(people) => people.contains(person),
        }
    }
}

impl Serialize for Eligible {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Anyone => serializer.serialize_str("anyone"),
            Self::Listed(people) => people.serialize(serializer),
        }
    }
}

/// What one person may have of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PerPerson {
    /// Assignments that are open at once.
    pub open: u32,
    /// Items that are completed or open, ever.
    pub total: Option<u32>,
}

/// What becomes of an item that would fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Escalate {
    /// It goes on in another queue, with its history.
    Queue(Name),
    /// It ends, and whoever waits for it is sent this event.
    Event(Name),
}

/// What must not hold of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// CEL over `answer`, `item` and `person`: true is a problem.
    #[serde(rename = "if")]
    pub condition: String,
    pub message: String,
    /// Where in the answer, for those who show it.
    pub path: String,
}

impl QueueConfig {
    pub const FORMAT: u8 = 1;
    pub const TIMEOUT: Duration = Duration::from_secs(3600);
    pub const PRE_ASSIGNMENT: Duration = Duration::from_secs(300);
    pub const ATTEMPTS_PER_LABELER: u32 = 3;
    /// For each place of an item.
    pub const ATTEMPTS_TOTAL: u32 = 5;
    pub const AGREEMENT: &'static str = "answer";

    /// A queue that says nothing but its name.
    pub fn plain(name: Name) -> Self {
        Self {
            format: Self::FORMAT,
            name,
            timeout: Self::TIMEOUT,
            pre_assignment_timeout: Some(Self::PRE_ASSIGNMENT),
            max_attempts_per_labeler: Self::ATTEMPTS_PER_LABELER,
            max_attempts_total: Self::ATTEMPTS_TOTAL,
            reassign_expired: true,
            reassign_skipped: true,
            skip_requires_reason: false,
            people: Eligible::Anyone,
            skills: BTreeSet::new(),
            overlap: 1,
            per_person: PerPerson { open: 1, total: None },
            priority: 0,
            due: None,
            escalate: None,
            schema: None,
            rules: Vec::new(),
            agreement: Self::AGREEMENT.to_owned(),
        }
    }

    /// Reads and checks a configuration; an error holds every problem with its path.
    pub fn parse(source: &str, format: Format) -> Result<Self, Problems> {
        queue_read::parse(source, format, None)
    }

    /// The same for a queue whose name is known: the text need not say it, and must not say another one.
    pub fn parse_named(source: &str, format: Format, name: &Name) -> Result<Self, Problems> {
        queue_read::parse(source, format, Some(name))
    }

    /// What is stored, and read back by [`QueueConfig::parse`].
    pub fn to_json(&self) -> RawJson {
        RawJson::of(self)
    }
}

mod seconds {
    //! Lengths of time as whole seconds; what is not whole is rounded up.

    use std::time::Duration;

    pub(super) fn whole(length: Duration) -> u64 {
        length.as_secs() + u64::from(length.subsec_nanos() > 0)
    }

    pub(super) fn serialize<S: serde::Serializer>(
        length: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(whole(*length))
    }
}

mod optional_seconds {
    //! The same, where there may be none.

    use std::time::Duration;

    use serde::Serialize;

    pub(super) fn serialize<S: serde::Serializer>(
        length: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        length.map(super::seconds::whole).serialize(serializer)
    }
}

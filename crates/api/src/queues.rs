//! Queues of work for people, their configuration, and statistics of queues and people.

use std::time::Duration;

use millstream_model::duration;
use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::scalar;
use crate::words::api_words;

api_words! {
    /// Whether a queue, or a person, gets assignments. Paused: no new assignments, open ones stay.
    WorkState {
        Active = "active",
        /// No new assignments; open ones stay.
        Paused = "paused",
    }
}

/// A queue and its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Queue", deny_unknown_fields)]
pub struct WorkQueue<J = Value> {
    #[schemars(with = "scalar::Name")]
    pub queue: String,
    pub state: WorkState,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    #[schemars(with = "scalar::Time")]
    pub updated_at: Timestamp,
    pub config: WorkQueueConfig<J>,
}

/// The configuration of a queue, with the default of every field that was left out. It can be sent back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EffectiveQueueConfig", deny_unknown_fields)]
pub struct WorkQueueConfig<J = Value> {
    /// Version of this layout.
    #[schemars(extend("enum" = [1]))]
    pub format: u8,
    #[schemars(with = "scalar::Name")]
    pub name: String,
    /// Time limit of an assignment, from its start.
    #[schemars(range(min = 1, max = 3_153_600_000_u64))]
    pub timeout_seconds: u64,
    /// Seconds within which an assignment must be started; null: unlimited.
    #[schemars(range(min = 1, max = 3_153_600_000_u64))]
    pub pre_assignment_timeout: Option<u64>,
    /// How often one item is assigned to the same person, started or not.
    #[schemars(range(min = 1, max = 1000))]
    pub max_attempts_per_person: u32,
    /// How often one item is assigned, over all people.
    #[schemars(range(min = 1, max = 1000))]
    pub max_attempts_total: u32,
    /// Whether the slot of an expired assignment is assigned again; otherwise an operator decides.
    pub reassign_expired: bool,
    /// Whether the slot of a skipped assignment is assigned again; otherwise an operator decides.
    pub reassign_skipped: bool,
    pub skip_requires_reason: bool,
    pub people: EligiblePeople,
    /// Skills that every person must have, in addition to those of the item.
    #[schemars(with = "Vec<scalar::Name>", length(max = 64))]
    pub skills: Vec<String>,
    /// Number of different people who work on one item.
    #[schemars(range(min = 1, max = 100))]
    pub overlap: u32,
    pub per_person: PerPersonLimits,
    /// Default priority of items; the highest comes first.
    #[schemars(range(min = -1_000_000, max = 1_000_000))]
    pub priority: i32,
    /// Default deadline of an item, in seconds from its import; null: none.
    #[schemars(range(min = 1, max = 3_153_600_000_u64))]
    pub due: Option<u64>,
    pub escalate: Option<QueueEscalation>,
    /// JSON Schema of answers, draft 2020-12; null: any answer.
    #[schemars(with = "Value", extend("type" = ["object", "boolean", "null"]))]
    pub schema: Option<J>,
    #[schemars(length(max = 100))]
    pub rules: Vec<AnswerCheck>,
    /// CEL: the part of an answer that is compared with the other answers.
    pub agreement: String,
}

/// Who may work in a queue: `anyone`, or the listed people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EligiblePeople {
    Anyone,
    #[serde(untagged)]
    Listed(
        #[schemars(
            with = "Vec<scalar::PersonId>",
            length(max = 10_000),
            extend("uniqueItems" = true)
        )]
        Vec<String>,
    ),
}

/// Limits of one person in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct PerPersonLimits {
    /// Assignments that are open at the same time.
    #[serde(default = "one_assignment")]
    #[schemars(range(min = 1, max = 1000))]
    pub open: u32,
    /// Items, completed or open, over all time; null: unlimited.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub total: Option<u32>,
}

const fn one_assignment() -> u32 {
    1
}

/// What happens instead of the failure of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueEscalation {
    /// The item moves to this queue, with its history.
    Queue(#[schemars(with = "scalar::Name")] String),
    /// The item ends, and the execution that waits for it receives this event.
    Event(#[schemars(with = "scalar::Name")] String),
}

/// A rule for answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct AnswerCheck {
    /// CEL over `answer`, `item` and `person`: true is a problem.
    #[serde(rename = "if")]
    pub condition: String,
    pub message: String,
    /// Place in the answer, for user interfaces.
    #[serde(default)]
    pub path: String,
}

/// A length of time in the configuration of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum QueueTime {
    /// Whole seconds.
    Seconds(#[schemars(range(min = 1, max = 3_153_600_000_u64))] u64),
    /// A duration like `30m`; the queue keeps whole seconds.
    Text(#[schemars(with = "scalar::Duration")] String),
}

impl From<Duration> for QueueTime {
    fn from(length: Duration) -> Self {
        Self::Text(duration::format_duration(length))
    }
}

/// The configuration of a queue. A field that is left out has its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "QueueConfig", deny_unknown_fields)]
pub struct NewWorkQueue {
    /// Version of this layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u8", extend("enum" = [1]))]
    pub format: Option<u8>,
    /// Must be the name in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Name")]
    pub name: Option<String>,
    /// Time limit of an assignment, from its start: whole seconds, or a duration as text; default 1h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "QueueTime")]
    pub timeout_seconds: Option<QueueTime>,
    /// Time within which an assignment must be started: whole seconds, or a duration as text; null:
    /// unlimited. Default 5m.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "keep_null")]
    #[schemars(with = "Option<QueueTime>")]
    pub pre_assignment_timeout: Option<Option<QueueTime>>,
    /// How often one item is assigned to the same person, started or not; default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 1000))]
    pub max_attempts_per_person: Option<u32>,
    /// An alias of `max_attempts_per_person`; only one of the two may be given. Answers do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 1000), extend("deprecated" = true))]
    pub max_attempts_per_labeler: Option<u32>,
    /// How often one item is assigned, over all people; at least the overlap. Default 5 times the overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 1000))]
    pub max_attempts_total: Option<u32>,
    /// Whether the slot of an expired assignment is assigned again; default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub reassign_expired: Option<bool>,
    /// Whether the slot of a skipped assignment is assigned again; default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub reassign_skipped: Option<bool>,
    /// Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub skip_requires_reason: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EligiblePeople")]
    pub people: Option<EligiblePeople>,
    /// Skills that every person must have, in addition to those of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<scalar::Name>", length(max = 64))]
    pub skills: Option<Vec<String>>,
    /// Number of different people who work on one item; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 100))]
    pub overlap: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PerPersonLimits")]
    pub per_person: Option<PerPersonLimits>,
    /// Default priority of items; the highest comes first. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = -1_000_000, max = 1_000_000))]
    pub priority: Option<i32>,
    /// Default deadline of an item, from its import: whole seconds, or a duration as text; null: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<QueueTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalate: Option<QueueEscalation>,
    /// JSON Schema of answers, draft 2020-12, at most 64 KiB, without references to other documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value", extend("type" = ["object", "boolean", "null"]))]
    pub schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<AnswerCheck>", length(max = 100))]
    pub rules: Option<Vec<AnswerCheck>>,
    /// CEL: the part of an answer that is compared with the other answers; default `answer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub agreement: Option<String>,
}

/// A null that is given, as opposed to a field that is left out.
fn keep_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_config_keeps_null_and_absent_fields() {
        for text in [
            "{}",
            r#"{"timeout_seconds":60,"pre_assignment_timeout":null,"people":"anyone"}"#,
            r#"{"pre_assignment_timeout":"5m","people":["ann","bob"],"per_person":{"open":1,"total":null}}"#,
            r#"{"escalate":{"queue":"seniors"},"rules":[{"if":"answer < 0","message":"m","path":""}]}"#,
        ] {
            let config: NewWorkQueue = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&config).unwrap(), text);
        }
    }
}

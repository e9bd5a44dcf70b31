//! What the server tells: plain structs, in the words of the API.
//!
//! A server may be newer than its client: fields that are not known here are ignored, and a status that is not
//! known reads as `Unknown`.

use millstream_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

macro_rules! statuses {
    ($(#[$doc:meta])* $name:ident in $case:literal { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = $case)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
            /// A word that this client does not know yet.
            #[serde(other)]
            Unknown,
        }

        impl $name {
            /// As in JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ Self::Unknown => "unknown" }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(super) use statuses;

statuses! {
    /// Where an execution stands.
    ExecutionStatus in "snake_case" {
        Active = "active",
        /// Something failed that nothing handles: a person decides.
        Paused = "paused",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl ExecutionStatus {
    /// Nothing more will happen to it.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

statuses! {
    /// Where an event stands.
    EventStatus in "snake_case" {
        /// Its turn has not come.
        Pending = "pending",
        /// Kept for a later state.
        Deferred = "deferred",
        /// Its transition is committed, some of its actions are not settled.
        Processing = "processing",
        /// Its transition is committed and every action is settled.
        Completed = "completed",
        /// It caused no transition; [`Event::error`] says why.
        Rejected = "rejected",
        /// An action failed for good and nothing handles that.
        Failed = "failed",
        /// Put aside because it could not be decided.
        Dead = "dead",
    }
}

impl EventStatus {
    /// Nothing more will happen to it unless a person intervenes.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Rejected | Self::Failed | Self::Dead)
    }
}

statuses! {
    /// Where an action stands.
    ActionStatus in "snake_case" {
        /// An action that it needs is not settled.
        Waiting = "waiting",
        Ready = "ready",
        /// A worker is at it.
        Leased = "leased",
        /// Begun; somebody else will tell its outcome (a child execution).
        Awaiting = "awaiting",
        /// Undoes another action; nothing has called for that.
        Standby = "standby",
        Succeeded = "succeeded",
        Failed = "failed",
        /// Something that it needs failed.
        Skipped = "skipped",
        Cancelled = "cancelled",
    }
}

statuses! {
    /// Where a signal stands.
    SignalStatus in "snake_case" {
        /// Kept for an execution that does not exist yet.
        Buffered = "buffered",
        /// It is an event of an execution.
        Delivered = "delivered",
        /// Nobody came for it in time.
        Expired = "expired",
    }
}

/// One run of a definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Execution {
    pub execution_id: String,
    pub definition: String,
    pub version: i32,
    pub state: String,
    pub status: ExecutionStatus,
    pub context: Value,
    pub seq: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Why it ended, where no final state says it; or why it is paused.
    #[serde(default)]
    pub reason: Option<String>,
    /// Of a child: the action that started it.
    #[serde(default)]
    pub parent: Option<Parent>,
    /// By which signals find it.
    #[serde(default)]
    pub correlation: Option<String>,
}

/// The action that started a child execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Parent {
    pub execution_id: String,
    pub seq: i64,
    pub action: String,
}

impl Execution {
    /// The context as a type of yours.
    pub fn context_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.context)
    }
}

/// An event that is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Accepted {
    pub event_id: String,
    pub execution_id: String,
    pub status: EventStatus,
}

/// An event, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    pub event_id: String,
    pub execution_id: String,
    pub name: String,
    pub payload: Value,
    pub status: EventStatus,
    pub from_state: Option<String>,
    pub to_state: Option<String>,
    pub seq: Option<i64>,
    pub attempts: i32,
    pub error: Option<String>,
    pub actor: Option<String>,
    pub worker_id: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

/// One step of an execution's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Transition {
    pub seq: i64,
    pub event_id: String,
    pub name: String,
    pub payload: Value,
    /// None for the first.
    pub from_state: Option<String>,
    pub to_state: String,
    pub actions: Vec<String>,
    pub at: Timestamp,
}

/// An action of a transition, and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ActionView {
    pub seq: i64,
    pub action: String,
    /// Its idempotency key.
    pub key: String,
    pub event_id: String,
    #[serde(default)]
    pub needs: Vec<String>,
    pub status: ActionStatus,
    pub attempts: i32,
    pub worker_id: Option<String>,
    pub lease_until: Option<Timestamp>,
    pub next_attempt_at: Option<Timestamp>,
    pub input: Option<Value>,
    pub result: Option<Value>,
    pub error: Option<Value>,
    pub created_at: Timestamp,
    pub settled_at: Option<Timestamp>,
    /// How often somebody gave it another input; the key ends in `~` and this number then.
    #[serde(default)]
    pub revision: i32,
    /// What its attempts told last.
    #[serde(default)]
    pub progress: Option<Value>,
    /// Of a `call`: the function.
    #[serde(default)]
    pub function: Option<String>,
    /// Of a `task`: its type.
    #[serde(default, rename = "type")]
    pub task_type: Option<String>,
    /// Of a `task`: what a worker must have to take it.
    #[serde(default)]
    pub labels: Vec<String>,
}

/// A timer that is armed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Timer {
    /// The transition that armed it.
    pub armed_seq: i64,
    pub ordinal: i32,
    /// The event that it sends.
    pub send: String,
    pub fire_at: Timestamp,
}

/// One version of a definition, without its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DefinitionVersion {
    pub name: String,
    pub version: i32,
    pub checksum: String,
    pub created_at: Timestamp,
}

/// One version of a definition with its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Definition {
    #[serde(flatten)]
    pub version: DefinitionVersion,
    /// The source as the server keeps it, with defaults spelled out.
    pub definition: Value,
}

/// A worker that was heard of lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerView {
    pub worker_id: String,
    pub started_at: Timestamp,
    pub seen_at: Timestamp,
    pub lanes: Vec<u8>,
    pub in_flight: i32,
    pub version: String,
}

/// The process answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Health {
    pub status: String,
    pub version: String,
}

/// The process can do its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Readiness {
    pub status: String,
    /// `up` or `down`.
    pub store: String,
    pub stream: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_server_is_understood_as_far_as_possible() {
        let told =
            serde_json::json!({ "event_id": "e", "execution_id": "x", "status": "hibernating", "mood": 1 });
        let accepted: Accepted = serde_json::from_value(told).unwrap();
        assert_eq!(accepted.status, EventStatus::Unknown);
        assert!(!accepted.status.is_final());
    }

    /// The words are written down twice on purpose: here a new one is no break for who matches on them.
    #[test]
    fn every_word_of_the_engine_is_known_here() {
        use millstream_core::status;
        fn known<T: DeserializeOwned + std::fmt::Display>(words: impl IntoIterator<Item = &'static str>) {
            for word in words {
                let read: T = serde_json::from_value(Value::from(word)).unwrap();
                assert_eq!(read.to_string(), word);
            }
        }
        known::<EventStatus>(status::EventStatus::ALL.iter().map(|status| status.as_str()));
        known::<ActionStatus>(status::ActionStatus::ALL.iter().map(|status| status.as_str()));
        known::<ExecutionStatus>(status::ExecutionStatus::ALL.iter().map(|status| status.as_str()));
        let finals = |status: &&status::EventStatus| status.is_final();
        for word in status::EventStatus::ALL.iter().filter(finals).map(|status| status.as_str()) {
            assert!(serde_json::from_value::<EventStatus>(Value::from(word)).unwrap().is_final(), "{word}");
        }
    }
}

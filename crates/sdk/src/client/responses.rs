//! Responses of the server: plain structs, with the names of the API.
//!
//! A server may be newer than its client: unknown fields are ignored, and an unknown status reads as
//! `Unknown`.

use millstream_model::time::Timestamp;
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
            /// A status unknown to this client.
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
    /// Status of an execution.
    ExecutionStatus in "snake_case" {
        Active = "active",
        /// A failure that no handler covers: an operator decides.
        Paused = "paused",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl ExecutionStatus {
    /// Final: the status will not change again.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

statuses! {
    /// Status of an event.
    EventStatus in "snake_case" {
        /// Not decided yet.
        Pending = "pending",
        /// Deferred to a later state.
        Deferred = "deferred",
        /// Its transition is committed; some of its actions are not settled.
        Processing = "processing",
        /// Its transition is committed and every action is settled.
        Completed = "completed",
        /// It caused no transition; [`Event::error`] says why.
        Rejected = "rejected",
        /// An action failed permanently and no handler covers that.
        Failed = "failed",
        /// Quarantined because it could not be decided.
        Dead = "dead",
    }
}

impl EventStatus {
    /// Final unless an operator intervenes.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Rejected | Self::Failed | Self::Dead)
    }
}

statuses! {
    /// Status of an action.
    ActionStatus in "snake_case" {
        /// An action that it needs is not settled.
        Waiting = "waiting",
        Ready = "ready",
        /// A worker performs it.
        Leased = "leased",
        /// Begun; another party will report its outcome (a child execution).
        Awaiting = "awaiting",
        /// Compensation for another action; not triggered so far.
        Standby = "standby",
        Succeeded = "succeeded",
        Failed = "failed",
        /// A required action failed.
        Skipped = "skipped",
        Cancelled = "cancelled",
    }
}

statuses! {
    /// Status of a signal.
    SignalStatus in "snake_case" {
        /// Buffered for an execution that does not exist yet.
        Buffered = "buffered",
        /// Delivered as an event of an execution.
        Delivered = "delivered",
        /// No execution accepted it in time.
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
    /// Why it ended, where the final state does not say so; or why it is paused.
    #[serde(default)]
    pub reason: Option<String>,
    /// For a child: the action that started it.
    #[serde(default)]
    pub parent: Option<ParentAction>,
    /// The keys by which signals find it.
    #[serde(default)]
    pub correlation: Option<String>,
}

/// The action that started a child execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParentAction {
    pub execution_id: String,
    pub seq: i64,
    pub action: String,
}

impl Execution {
    /// The context, deserialised.
    pub fn context_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.context)
    }
}

/// A durable event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AcceptedEvent {
    pub event_id: String,
    pub execution_id: String,
    pub status: EventStatus,
}

/// An event with its outcome.
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

/// One transition of an execution's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecutionTransition {
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

/// An action of a transition, with its status.
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
    /// How often an operator gave it another input; the key then ends in `~` and this number.
    #[serde(default)]
    pub revision: i32,
    /// The last progress of its attempts.
    #[serde(default)]
    pub progress: Option<Value>,
    /// For a `call`: the function.
    #[serde(default)]
    pub function: Option<String>,
    /// For a `task`: its type.
    #[serde(default, rename = "type")]
    pub task_type: Option<String>,
    /// For a `task`: labels that a worker must have to lease it.
    #[serde(default)]
    pub labels: Vec<String>,
}

/// An armed timer.
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
pub struct DefinitionSource {
    #[serde(flatten)]
    pub version: DefinitionVersion,
    /// The source as stored by the server, with defaults spelled out.
    pub definition: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_of_newer_server_is_read() {
        let told =
            serde_json::json!({ "event_id": "e", "execution_id": "x", "status": "hibernating", "mood": 1 });
        let accepted: AcceptedEvent = serde_json::from_value(told).unwrap();
        assert_eq!(accepted.status, EventStatus::Unknown);
        assert!(!accepted.status.is_final());
    }

    /// The statuses are listed twice on purpose: a new one in the engine is no breaking change for users that
    /// match on these.
    #[test]
    fn client_knows_every_engine_status() {
        use millstream_model::status;
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

//! Events: posted, singly or in a batch, and read.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scalar;
use crate::words::api_words;

api_words! {
    /// Status of an event.
    EventStatus from millstream_model::status::EventStatus {
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

/// A durable event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AcceptedEvent {
    #[schemars(with = "scalar::EventId")]
    pub event_id: String,
    #[schemars(with = "scalar::ExecutionId")]
    pub execution_id: String,
    pub status: EventStatus,
}

/// An event with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Event", deny_unknown_fields)]
pub struct Event<J = Value> {
    #[schemars(with = "scalar::EventId")]
    pub event_id: String,
    #[schemars(with = "scalar::ExecutionId")]
    pub execution_id: String,
    #[schemars(with = "scalar::Name")]
    pub name: String,
    /// Any JSON, stored as sent.
    pub payload: J,
    pub status: EventStatus,
    /// The state that its transition left; null before the transition, and for the start.
    #[schemars(with = "Option<scalar::Name>")]
    pub from_state: Option<String>,
    /// The state that its transition entered.
    #[schemars(with = "Option<scalar::Name>")]
    pub to_state: Option<String>,
    /// The number of its transition.
    pub seq: Option<i64>,
    /// Number of failed attempts at deciding it.
    pub attempts: i32,
    /// Why it is rejected, failed or dead.
    pub error: Option<String>,
    /// Its origin: the API key, or the action of the engine.
    pub actor: Option<String>,
    /// The worker that decided it.
    pub worker_id: Option<String>,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    #[schemars(with = "Option<scalar::Time>")]
    pub started_at: Option<Timestamp>,
    #[schemars(with = "Option<scalar::Time>")]
    pub completed_at: Option<Timestamp>,
}

/// An event to accept for one execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NewEvent", deny_unknown_fields)]
#[schemars(extend("examples" = [{ "name": "pay", "payload": { "amount": 7 } }]))]
pub struct EventToPost<J = Value> {
    #[schemars(with = "scalar::Name")]
    pub name: String,
    /// Any JSON, stored as sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<J>,
}

/// One line of application/x-ndjson, or one item of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NewEventLine", deny_unknown_fields)]
pub struct EventLine<J = Value> {
    #[schemars(with = "scalar::ExecutionId")]
    pub execution_id: String,
    #[schemars(with = "scalar::Name")]
    pub name: String,
    /// Any JSON, stored as sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<J>,
    /// The same event with the same key is accepted once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::IdempotencyKey>")]
    pub idempotency_key: Option<String>,
}

/// Events to accept, for any executions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "NewEventBatch")]
pub struct EventLines<J = Value>(#[schemars(length(max = 1000))] pub Vec<EventLine<J>>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_of_newer_server_is_read() {
        let answer =
            serde_json::json!({ "event_id": "e", "execution_id": "x", "status": "hibernating", "mood": 1 });
        let accepted: AcceptedEvent = serde_json::from_value(answer).unwrap();
        assert_eq!(accepted.status, EventStatus::Unknown);
        assert!(!accepted.status.is_final());
    }

    #[test]
    fn final_events_are_those_of_the_engine() {
        use millstream_model::status;
        for engine in status::EventStatus::ALL {
            let status = EventStatus::from(*engine);
            assert_eq!((status.as_str(), status.is_final()), (engine.as_str(), engine.is_final()));
        }
    }
}

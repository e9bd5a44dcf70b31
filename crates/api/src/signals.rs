//! Signals: events that are addressed by correlation.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::EventStatus;
use crate::scalar;
use crate::words::api_words;

api_words! {
    /// Status of a signal.
    SignalStatus {
        /// Buffered for an execution that does not exist yet.
        Buffered = "buffered",
        /// Delivered as an event of an execution.
        Delivered = "delivered",
        /// No execution accepted it in time.
        Expired = "expired",
    }
}

/// A durable signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AcceptedSignal", deny_unknown_fields)]
pub struct SignalAccepted {
    /// Also the id of its event after delivery.
    #[schemars(with = "scalar::EventId")]
    pub signal_id: String,
    pub status: SignalStatus,
    /// The execution that got it, once it is delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::ExecutionId>")]
    pub execution_id: Option<String>,
}

/// A signal with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Signal")]
pub enum Signal<J = Value> {
    Waiting(WaitingSignal<J>),
    Delivered(DeliveredSignal<J>),
}

/// A signal that no execution has received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SignalWaiting", deny_unknown_fields)]
pub struct WaitingSignal<J = Value> {
    #[schemars(with = "scalar::EventId")]
    pub signal_id: String,
    /// Buffered or expired.
    #[schemars(with = "String", extend("enum" = ["buffered", "expired"]))]
    pub status: SignalStatus,
    #[schemars(with = "scalar::Name")]
    pub name: String,
    /// Any JSON, stored as sent.
    pub payload: J,
    pub actor: Option<String>,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    /// The correlation of the execution that it waits for.
    pub correlation: String,
    /// The definition of that execution; null: any.
    #[schemars(with = "Option<scalar::Name>")]
    pub definition: Option<String>,
    #[schemars(with = "scalar::Time")]
    pub expires_at: Timestamp,
}

/// A signal that an execution has received: the event has the id of the signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SignalDelivered", deny_unknown_fields)]
pub struct DeliveredSignal<J = Value> {
    #[schemars(with = "scalar::EventId")]
    pub signal_id: String,
    /// Always `delivered`.
    #[schemars(with = "String", extend("enum" = ["delivered"]))]
    pub status: SignalStatus,
    #[schemars(with = "scalar::Name")]
    pub name: String,
    /// Any JSON, stored as sent.
    pub payload: J,
    pub actor: Option<String>,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    #[schemars(with = "scalar::EventId")]
    pub event_id: String,
    #[schemars(with = "scalar::ExecutionId")]
    pub execution_id: String,
    pub event_status: EventStatus,
}

impl<J> Signal<J> {
    pub fn status(&self) -> SignalStatus {
        match self {
            Self::Waiting(signal) => signal.status,
            Self::Delivered(signal) => signal.status,
        }
    }

    /// The signal before its delivery.
    pub fn waiting(&self) -> Option<&WaitingSignal<J>> {
        match self {
            Self::Waiting(signal) => Some(signal),
            Self::Delivered(_) => None,
        }
    }

    /// The signal after its delivery.
    pub fn delivered(&self) -> Option<&DeliveredSignal<J>> {
        match self {
            Self::Waiting(_) => None,
            Self::Delivered(signal) => Some(signal),
        }
    }
}

/// A signal to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NewSignal", deny_unknown_fields)]
#[schemars(extend("examples" = [
    { "correlation": "order-17", "name": "paid", "payload": { "amount": 30 }, "wait_for": "2h" },
]))]
pub struct NewSignal<J = Value> {
    #[schemars(with = "scalar::Correlation")]
    pub correlation: String,
    #[schemars(with = "scalar::Name")]
    pub name: String,
    /// Any JSON, stored as sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<J>,
    /// Only executions of this definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Name>")]
    pub definition: Option<String>,
    /// How long it is buffered for an execution that does not exist yet: default 24h, at most 30d.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Duration>")]
    pub wait_for: Option<String>,
}

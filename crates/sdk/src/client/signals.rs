//! Signals: events for whichever execution has a correlation.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use millstream_core::duration;
use millstream_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::answer::{EventStatus, SignalStatus};
use super::connect::Client;
use super::error::ClientError;
use super::json::{self, Json};
use super::transport::{Ask, Repeat, segment};

/// A signal that is sent when it is awaited.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct Signalling {
    client: Client,
    correlation: String,
    name: String,
    payload: Option<Json>,
    definition: Option<String>,
    wait_for: Option<Duration>,
    key: Option<String>,
}

/// A signal that is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SignalAccepted {
    /// Also the id of the event that it is once it is delivered.
    pub signal_id: String,
    pub status: SignalStatus,
    /// Who got it, once it is delivered.
    #[serde(default)]
    pub execution_id: Option<String>,
}

/// A signal, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Signal {
    pub signal_id: String,
    pub status: SignalStatus,
    pub name: String,
    pub payload: Value,
    pub actor: Option<String>,
    pub created_at: Timestamp,
    /// Until it is delivered: what it waits for.
    #[serde(default)]
    pub correlation: Option<String>,
    #[serde(default)]
    pub definition: Option<String>,
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// Once it is delivered: the event that it is.
    #[serde(default)]
    pub event_id: Option<String>,
    #[serde(default)]
    pub execution_id: Option<String>,
    #[serde(default)]
    pub event_status: Option<EventStatus>,
}

#[derive(Debug, Serialize)]
struct Body<'a> {
    correlation: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_for: Option<String>,
}

impl Client {
    /// Sends an event to the one execution that has this correlation; sent when awaited. If there is none yet, it is
    /// kept for one that comes; if there are several, it is refused.
    pub fn signal(&self, correlation: impl Into<String>, name: impl Into<String>) -> Signalling {
        Signalling {
            client: self.clone(),
            correlation: correlation.into(),
            name: name.into(),
            payload: None,
            definition: None,
            wait_for: None,
            key: None,
        }
    }

    /// What became of a signal.
    pub async fn signal_status(&self, signal_id: &str) -> Result<Signal, ClientError> {
        self.ask(&Ask::get(format!("/v1/signals/{}", segment(signal_id)))).await?.json()
    }
}

impl Signalling {
    pub fn payload(mut self, payload: impl Serialize) -> Self {
        self.payload = Some(Json::of(&payload));
        self
    }

    /// Only for an execution of this definition.
    pub fn definition(mut self, name: impl Into<String>) -> Self {
        self.definition = Some(name.into());
        self
    }

    /// How long it is kept for an execution that does not exist yet. 24 hours unless said, at most 30 days.
    pub fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// An idempotency key of your own: the same signal under the same key again is the same signal, also from another
    /// process. Without one, each call has its own.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl IntoFuture for Signalling {
    type Output = Result<SignalAccepted, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let body = Body {
                correlation: &self.correlation,
                name: &self.name,
                payload: json::get(self.payload.as_ref())?,
                definition: self.definition.as_deref(),
                wait_for: self.wait_for.map(duration::format),
            };
            let key = self.key.unwrap_or_else(|| Uuid::now_v7().to_string());
            let ask = Ask::post("/v1/signals", Repeat::Always).json(json::body(&body)?);
            self.client.ask(&ask.header("idempotency-key", key)).await?.json()
        })
    }
}

//! Signals: events addressed by correlation instead of by execution id.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use millstream_api::signals::{NewSignal, Signal, SignalAccepted};
use millstream_model::duration;
use serde::Serialize;
use uuid::Uuid;

use super::connect::Client;
use super::json::{self, JsonText};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// A signal; awaiting it sends it.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct SendSignal {
    client: Client,
    correlation: String,
    name: String,
    payload: Option<JsonText>,
    definition: Option<String>,
    wait_for: Option<Duration>,
    key: Option<String>,
}

impl Client {
    /// Sends an event to the one execution with this correlation; sent when awaited. Without such an
    /// execution it is buffered; with several it is refused.
    pub fn signal(&self, correlation: impl Into<String>, name: impl Into<String>) -> SendSignal {
        SendSignal {
            client: self.clone(),
            correlation: correlation.into(),
            name: name.into(),
            payload: None,
            definition: None,
            wait_for: None,
            key: None,
        }
    }

    /// A signal with its outcome.
    pub async fn signal_status(&self, signal_id: &str) -> Result<Signal, ClientError> {
        self.send_request(&ApiRequest::get(format!("/v1/signals/{}", path_segment(signal_id)))).await?.json()
    }
}

impl SendSignal {
    pub fn payload(mut self, payload: impl Serialize) -> Self {
        self.payload = Some(JsonText::of_value(&payload));
        self
    }

    /// Only for an execution of this definition.
    pub fn definition(mut self, name: impl Into<String>) -> Self {
        self.definition = Some(name.into());
        self
    }

    /// How long it is buffered for an execution that does not exist yet. 24 hours by default, at most 30
    /// days.
    pub fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// A caller-supplied idempotency key: the same signal with the same key is accepted once, also from
    /// another process. By default each call creates its own.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl IntoFuture for SendSignal {
    type Output = Result<SignalAccepted, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let body = NewSignal {
                correlation: self.correlation,
                name: self.name,
                payload: json::get(self.payload.as_ref())?,
                definition: self.definition,
                wait_for: self.wait_for.map(duration::format_duration),
            };
            let key = self.key.unwrap_or_else(|| Uuid::now_v7().to_string());
            let ask =
                ApiRequest::post("/v1/signals", RepeatPolicy::Always).with_json(json::json_body(&body)?);
            self.client.send_request(&ask.add_header("idempotency-key", key)).await?.json()
        })
    }
}

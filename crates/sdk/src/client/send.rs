//! Sends one event, or a cancellation, and waits for its outcome.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use millstream_api::events::{AcceptedEvent, Event, EventStatus, EventToPost};
use serde::Serialize;
use tokio::time::Instant;
use uuid::Uuid;

use super::connect::Client;
use super::events::reason_body;
use super::executions::execution_path;
use super::json::{self, JsonText};
use super::transport::{ApiRequest, RepeatPolicy};
use crate::client_error::ClientError;

/// The server's limit per wait; a longer wait is several requests.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Delay before the next request, when the server answered early without an outcome.
const BREATH: Duration = Duration::from_millis(200);

/// An event; awaiting it sends it.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct SendEvent {
    client: Client,
    execution: String,
    name: String,
    payload: Option<JsonText>,
    check: StateCheck,
    delivery: SendOptions,
}

/// A cancellation; awaiting it sends it.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct CancelExecution {
    client: Client,
    execution: String,
    reason: Option<String>,
    delivery: SendOptions,
}

/// Outcome of an event, as far as it was awaited.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SendOutcome {
    pub event_id: String,
    pub execution_id: String,
    pub status: EventStatus,
    /// The whole event, if the awaited condition holds.
    pub event: Option<Event>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StateCheck {
    Names,
    State,
}

/// Delivery of a durable request: its key, and its wait.
#[derive(Debug)]
struct SendOptions {
    key: Option<String>,
    wait: SendWait,
    until: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum SendWait {
    /// As in the definition's mode.
    Unsaid,
    Never,
    For(Duration),
}

impl Client {
    /// Sends an event to an execution; sent when awaited.
    pub fn send(&self, execution: impl Into<String>, name: impl Into<String>) -> SendEvent {
        SendEvent {
            client: self.clone(),
            execution: execution.into(),
            name: name.into(),
            payload: None,
            check: StateCheck::Names,
            delivery: SendOptions::default_options(),
        }
    }

    /// Cancels an execution; sent when awaited. Running actions are notified.
    pub fn cancel(&self, execution: impl Into<String>) -> CancelExecution {
        CancelExecution {
            client: self.clone(),
            execution: execution.into(),
            reason: None,
            delivery: SendOptions::default_options(),
        }
    }
}

impl SendOutcome {
    /// The answer to an event that is accepted and not awaited.
    pub fn accepted(&self) -> AcceptedEvent {
        let Self { event_id, execution_id, status, event: _ } = self.clone();
        AcceptedEvent { event_id, execution_id, status }
    }
}

impl SendEvent {
    pub fn payload(mut self, payload: impl Serialize) -> Self {
        self.payload = Some(JsonText::of_value(&payload));
        self
    }

    /// A caller-supplied idempotency key: the same event with the same key is accepted once, also from
    /// another process. By default each call creates its own.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.delivery.key = Some(key.into());
        self
    }

    /// Waits until the event is final: completed, rejected, failed or dead. After a timeout [`SendOutcome::event`]
    /// is `None`; the event is processed in any case.
    pub fn wait(mut self, longest: Duration) -> Self {
        self.delivery.wait = SendWait::For(longest);
        self
    }

    /// With [`wait`](SendEvent::wait): only until its transition is committed.
    pub fn until_applied(mut self) -> Self {
        self.delivery.until = ", until=applied";
        self
    }

    /// Does not wait even where the definition has `mode: sync`.
    pub fn without_waiting(mut self) -> Self {
        self.delivery.wait = SendWait::Never;
        self
    }

    /// Refuses the event (409) if the current state neither handles nor defers it. A best-effort check, not a
    /// lock.
    pub fn check_state(mut self) -> Self {
        self.check = StateCheck::State;
        self
    }
}

impl CancelExecution {
    /// Recorded in the execution's history.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Waits until it is decided.
    pub fn wait(mut self, longest: Duration) -> Self {
        self.delivery.wait = SendWait::For(longest);
        self
    }
}

impl IntoFuture for SendEvent {
    type Output = Result<SendOutcome, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let body = EventToPost { name: self.name, payload: json::get(self.payload.as_ref())? };
            let mut ask = ApiRequest::post(execution_path(&self.execution, "/events"), RepeatPolicy::Always)
                .with_json(json::json_body(&body)?);
            if self.check == StateCheck::State {
                ask = ask.add_header("millstream-validate", "state");
            }
            self.delivery.deliver_request(&self.client, ask).await
        })
    }
}

impl IntoFuture for CancelExecution {
    type Output = Result<SendOutcome, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let body = reason_body(self.reason.as_deref())?;
            let ask = ApiRequest::post(execution_path(&self.execution, "/cancel"), RepeatPolicy::Always)
                .with_json(body);
            self.delivery.deliver_request(&self.client, ask).await
        })
    }
}

impl SendOptions {
    fn default_options() -> Self {
        Self { key: None, wait: SendWait::Unsaid, until: "" }
    }

    async fn deliver_request(self, client: &Client, ask: ApiRequest) -> Result<SendOutcome, ClientError> {
        let key = self.key.unwrap_or_else(|| Uuid::now_v7().to_string());
        let ask = ask.add_header("idempotency-key", key);
        let patience = match self.wait {
            SendWait::Unsaid => return read_sent_event(client, ask).await,
            SendWait::Never => {
                return read_sent_event(client, ask.add_header("prefer", "respond-async")).await;
            }
            SendWait::For(patience) => patience,
        };
        // A repetition with the same key waits again, so a wait may exceed the server's limit.
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let wish = format!("{}{}", prefer_wait(left), self.until);
            let sent = read_sent_event(
                client,
                ask.clone().add_header("prefer", wish).with_server_wait(left.min(LONGEST_WAIT)),
            )
            .await?;
            if sent.event.is_some() || Instant::now() + BREATH >= deadline {
                return Ok(sent);
            }
            tokio::time::sleep(BREATH).await;
        }
    }
}

async fn read_sent_event(client: &Client, ask: ApiRequest) -> Result<SendOutcome, ClientError> {
    let answer = client.send_request(&ask).await?;
    let AcceptedEvent { event_id, execution_id, status } = answer.json()?;
    let event = if answer.status == 200 { Some(answer.json()?) } else { None };
    Ok(SendOutcome { event_id, execution_id, status, event })
}

/// The value of `Prefer` for a wait.
pub(crate) fn prefer_wait(wait: Duration) -> String {
    format!("wait={:.3}", wait.min(LONGEST_WAIT).as_secs_f64())
}

//! Sends one event, or a cancellation, and waits for its outcome.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use uuid::Uuid;

use super::answer::{Accepted, Event, EventStatus};
use super::connect::Client;
use super::error::ClientError;
use super::events::reason;
use super::executions::path;
use super::json::{self, Json};
use super::transport::{Ask, Repeat};

/// The server's limit per wait; a longer wait is several requests.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Delay before the next request, when the server answered early without an outcome.
const BREATH: Duration = Duration::from_millis(200);

/// An event; awaiting it sends it.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct Sending {
    client: Client,
    execution: String,
    name: String,
    payload: Option<Json>,
    check: Check,
    delivery: Delivery,
}

/// A cancellation; awaiting it sends it.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct Cancelling {
    client: Client,
    execution: String,
    reason: Option<String>,
    delivery: Delivery,
}

/// Outcome of an event, as far as it was awaited.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sent {
    pub event_id: String,
    pub execution_id: String,
    pub status: EventStatus,
    /// The whole event, if the awaited condition holds.
    pub event: Option<Event>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Names,
    State,
}

/// Delivery of a durable request: its key, and its wait.
#[derive(Debug)]
struct Delivery {
    key: Option<String>,
    wait: Wait,
    until: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Wait {
    /// As in the definition's mode.
    Unsaid,
    Never,
    For(Duration),
}

#[derive(Debug, Serialize)]
struct Body<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
}

impl Client {
    /// Sends an event to an execution; sent when awaited.
    pub fn send(&self, execution: impl Into<String>, name: impl Into<String>) -> Sending {
        Sending {
            client: self.clone(),
            execution: execution.into(),
            name: name.into(),
            payload: None,
            check: Check::Names,
            delivery: Delivery::unsaid(),
        }
    }

    /// Cancels an execution; sent when awaited. Running actions are notified.
    pub fn cancel(&self, execution: impl Into<String>) -> Cancelling {
        Cancelling {
            client: self.clone(),
            execution: execution.into(),
            reason: None,
            delivery: Delivery::unsaid(),
        }
    }
}

impl Sending {
    pub fn payload(mut self, payload: impl Serialize) -> Self {
        self.payload = Some(Json::of(&payload));
        self
    }

    /// A caller-supplied idempotency key: the same event with the same key is accepted once, also from
    /// another process. By default each call creates its own.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.delivery.key = Some(key.into());
        self
    }

    /// Waits until the event is final: completed, rejected, failed or dead. After a timeout [`Sent::event`]
    /// is `None`; the event is processed in any case.
    pub fn wait(mut self, longest: Duration) -> Self {
        self.delivery.wait = Wait::For(longest);
        self
    }

    /// With [`wait`](Sending::wait): only until its transition is committed.
    pub fn until_applied(mut self) -> Self {
        self.delivery.until = ", until=applied";
        self
    }

    /// Does not wait even where the definition has `mode: sync`.
    pub fn without_waiting(mut self) -> Self {
        self.delivery.wait = Wait::Never;
        self
    }

    /// Refuses the event (409) if the current state neither handles nor defers it. A best-effort check, not a
    /// lock.
    pub fn check_state(mut self) -> Self {
        self.check = Check::State;
        self
    }
}

impl Cancelling {
    /// Recorded in the execution's history.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Waits until it is decided.
    pub fn wait(mut self, longest: Duration) -> Self {
        self.delivery.wait = Wait::For(longest);
        self
    }
}

impl IntoFuture for Sending {
    type Output = Result<Sent, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let body = Body { name: &self.name, payload: json::get(self.payload.as_ref())? };
            let mut ask =
                Ask::post(path(&self.execution, "/events"), Repeat::Always).json(json::body(&body)?);
            if self.check == Check::State {
                ask = ask.header("millstream-validate", "state");
            }
            self.delivery.deliver(&self.client, ask).await
        })
    }
}

impl IntoFuture for Cancelling {
    type Output = Result<Sent, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let body = reason(self.reason.as_deref())?;
            let ask = Ask::post(path(&self.execution, "/cancel"), Repeat::Always).json(body);
            self.delivery.deliver(&self.client, ask).await
        })
    }
}

impl Delivery {
    fn unsaid() -> Self {
        Self { key: None, wait: Wait::Unsaid, until: "" }
    }

    async fn deliver(self, client: &Client, ask: Ask) -> Result<Sent, ClientError> {
        let key = self.key.unwrap_or_else(|| Uuid::now_v7().to_string());
        let ask = ask.header("idempotency-key", key);
        let patience = match self.wait {
            Wait::Unsaid => return read(client, ask).await,
            Wait::Never => return read(client, ask.header("prefer", "respond-async")).await,
            Wait::For(patience) => patience,
        };
        // A repetition with the same key waits again, so a wait may exceed the server's limit.
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let wish = format!("{}{}", prefer(left), self.until);
            let sent =
                read(client, ask.clone().header("prefer", wish).waiting(left.min(LONGEST_WAIT))).await?;
            if sent.event.is_some() || Instant::now() + BREATH >= deadline {
                return Ok(sent);
            }
            tokio::time::sleep(BREATH).await;
        }
    }
}

async fn read(client: &Client, ask: Ask) -> Result<Sent, ClientError> {
    let answer = client.ask(&ask).await?;
    let Accepted { event_id, execution_id, status } = answer.json()?;
    let event = if answer.status == 200 { Some(answer.json()?) } else { None };
    Ok(Sent { event_id, execution_id, status, event })
}

/// The value of `Prefer` for a wait.
pub(crate) fn prefer(wait: Duration) -> String {
    format!("wait={:.3}", wait.min(LONGEST_WAIT).as_secs_f64())
}

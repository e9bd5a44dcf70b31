//! A webhook: CloudEvents by POST, in batches or one by one, signed according to Standard Webhooks.
//!
//! The rules of HTTP actions hold: the same address guard, no proxies, and only the beginning of an answer is
//! read. A redirect counts as a failure: the signature is meant for the configured address.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::definition::Method;
use millstream_core::id::{Name, TenantId};
use millstream_core::raw::RawJson;
use millstream_store::clock::Clock;

use super::cloud_event::CloudEvent;
use super::sink::{Load, Refusal, Sink};
use super::taste::Taste;
use crate::error::WorkerError;
use crate::options::HttpOptions;
use crate::perform::http::HttpPerformer;
use crate::perform::webhook::signed;
use crate::perform::{HttpRequest, Secrets, answer};

/// Concurrent requests.
const REQUESTS: usize = 8;
const BATCH_EVENTS: usize = 100;
const BATCH_BYTES: usize = 256 * 1024;

/// Settings of one webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub name: Name,
    pub url: String,
    /// Names of secrets, of the tenant `default`; each of them signs.
    pub secrets: Vec<Name>,
    pub form: Form,
    pub timeout: Duration,
    pub source: String,
    pub taste: Taste,
}

/// Format of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `application/cloudevents-batch+json`: many events per request.
    Batch,
    /// `application/cloudevents+json`: one event per request.
    Single,
}

#[derive(Debug)]
pub struct WebhookSink {
    webhook: Webhook,
    http: HttpPerformer,
    secrets: Arc<dyn Secrets>,
    clock: Arc<dyn Clock>,
}

impl WebhookSink {
    /// `http` defines which addresses may be reached.
    pub fn new(
        webhook: Webhook,
        http: &HttpOptions,
        secrets: Arc<dyn Secrets>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, WorkerError> {
        let http = HttpOptions { max_response: answer::LOOKED_AT, ..http.clone() };
        Ok(Self { webhook, http: HttpPerformer::new(&http)?, secrets, clock })
    }

    async fn request(&self, events: &[CloudEvent]) -> Result<HttpRequest, Refusal> {
        let mut secrets = Vec::new();
        for name in &self.webhook.secrets {
            let secret = self.secrets.get(&TenantId::default_tenant(), name).await.ok_or_else(|| {
                let error = format!("no such secret: {:?}", name.as_str());
                Refusal::Away { error, retry_after: None }
            })?;
            secrets.push(secret);
        }
        let (body, kind) = match (self.webhook.form, events) {
            (Form::Single, [event]) => (RawJson::of(event), "application/cloudevents+json"),
            (Form::Single | Form::Batch, _) => (RawJson::of(&events), "application/cloudevents-batch+json"),
        };
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let mut headers: BTreeMap<String, String> =
            signed(&secrets, &message_key(events), &body, self.clock.now());
        headers.insert("content-type".to_owned(), kind.to_owned());
        Ok(HttpRequest {
            method: Method::Post,
            url: self.webhook.url.clone(),
            headers,
            body: Some(body),
            expect: Vec::new(),
            max_response: None,
            sealed: Default::default(),
            at: self.clock.now(),
        })
    }
}

#[async_trait::async_trait]
impl Sink for WebhookSink {
    fn name(&self) -> &Name {
        &self.webhook.name
    }

    fn source(&self) -> &str {
        &self.webhook.source
    }

    fn taste(&self) -> &Taste {
        &self.webhook.taste
    }

    fn load(&self) -> Load {
        let events = match self.webhook.form {
            Form::Batch => BATCH_EVENTS,
            Form::Single => 1,
        };
        Load { requests: REQUESTS, events, bytes: BATCH_BYTES }
    }

    async fn send(&self, events: &[CloudEvent]) -> Result<(), Refusal> {
        let request = self.request(events).await?;
        match tokio::time::timeout(self.webhook.timeout, self.http.deliver(&request)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(attempt)) => Err(refusal(attempt)),
            Err(_) => {
                let error = format!("no answer within {:?}", self.webhook.timeout);
                Err(Refusal::Away { error, retry_after: None })
            }
        }
    }
}

/// The same events give the same message id at every repetition; other events give another id.
fn message_key(events: &[CloudEvent]) -> String {
    let ids = events.iter().flat_map(|event| [event.source.as_str(), event.id.as_str()]);
    ids.collect::<Vec<_>>().join(" ")
}

/// An answer refuses the events, unless it says otherwise; a missing answer concerns the sink.
fn refusal(attempt: Attempt) -> Refusal {
    let (error, retry_after) = match attempt {
        Attempt::Transient { error, retry_after } => (error, retry_after),
        Attempt::Permanent { error } | Attempt::Pause { error } => (error, None),
        Attempt::Success { .. } => {
            let message = "the answer is a success but was not accepted as one".to_owned();
            (ActionError { class: ErrorClass::Internal, message, status: None }, None)
        }
    };
    let error = answer::shortened(error);
    match error.status {
        None | Some(429 | 503) => Refusal::Away { error: error.to_string(), retry_after },
        Some(_) => Refusal::Refused { error: error.to_string() },
    }
}

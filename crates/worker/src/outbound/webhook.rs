//! A webhook: CloudEvents by POST, in batches or one by one, signed according to Standard Webhooks.
//!
//! The rules of HTTP actions hold: the same address guard, no proxies, and only the beginning of an answer is
//! read. A redirect counts as a failure: the signature is meant for the configured address.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{Name, TenantId};
use millstream_model::raw::RawJson;
use millstream_store::clock::Clock;
use millstream_workflow::definition::HttpMethod;

use super::cloud_event::CloudEvent;
use super::event_filter::SinkFilter;
use super::sink::{Sink, SinkLoad, SinkRefusal};
use crate::error::WorkerFailure;
use crate::options::HttpOptions;
use crate::perform::http::HttpPerformer;
use crate::perform::webhook::signature_headers;
use crate::perform::{HttpRequest, SecretSource, http_answer};

/// Concurrent requests.
const REQUESTS: usize = 8;
const BATCH_EVENTS: usize = 100;
const BATCH_BYTES: usize = 256 * 1024;

/// Settings of one webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    pub name: Name,
    pub url: String,
    /// Names of secrets, of the tenant `default`; each of them signs.
    pub secrets: Vec<Name>,
    pub form: WebhookForm,
    pub timeout: Duration,
    pub source: String,
    pub taste: SinkFilter,
}

/// Format of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookForm {
    /// `application/cloudevents-batch+json`: many events per request.
    Batch,
    /// `application/cloudevents+json`: one event per request.
    Single,
}

#[derive(Debug)]
pub struct WebhookSink {
    webhook: WebhookSettings,
    http: HttpPerformer,
    secrets: Arc<dyn SecretSource>,
    clock: Arc<dyn Clock>,
}

impl WebhookSink {
    /// `http` defines which addresses may be reached.
    pub fn new(
        webhook: WebhookSettings,
        http: &HttpOptions,
        secrets: Arc<dyn SecretSource>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, WorkerFailure> {
        let http = HttpOptions { max_response: http_answer::LOOKED_AT, ..http.clone() };
        Ok(Self { webhook, http: HttpPerformer::new(&http)?, secrets, clock })
    }

    async fn signed_request(&self, events: &[CloudEvent]) -> Result<HttpRequest, SinkRefusal> {
        let mut secrets = Vec::new();
        for name in &self.webhook.secrets {
            let secret = self.secrets.get(&TenantId::default_tenant(), name).await.ok_or_else(|| {
                let error = format!("no such secret: {:?}", name.as_str());
                SinkRefusal::Away { error, retry_after: None }
            })?;
            secrets.push(secret);
        }
        let (body, kind) = match (self.webhook.form, events) {
            (WebhookForm::Single, [event]) => (RawJson::from_value(event), "application/cloudevents+json"),
            (WebhookForm::Single | WebhookForm::Batch, _) => {
                (RawJson::from_value(&events), "application/cloudevents-batch+json")
            }
        };
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let mut headers: BTreeMap<String, String> =
            signature_headers(&secrets, &message_key(events), &body, self.clock.now());
        headers.insert("content-type".to_owned(), kind.to_owned());
        Ok(HttpRequest {
            method: HttpMethod::Post,
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

    fn event_filter(&self) -> &SinkFilter {
        &self.webhook.taste
    }

    fn load_limits(&self) -> SinkLoad {
        let events = match self.webhook.form {
            WebhookForm::Batch => BATCH_EVENTS,
            WebhookForm::Single => 1,
        };
        SinkLoad { requests: REQUESTS, events, bytes: BATCH_BYTES }
    }

    async fn send_events(&self, events: &[CloudEvent]) -> Result<(), SinkRefusal> {
        let request = self.signed_request(events).await?;
        match tokio::time::timeout(self.webhook.timeout, self.http.deliver_request(&request)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(attempt)) => Err(refusal_of_attempt(attempt)),
            Err(_) => {
                let error = format!("no answer within {:?}", self.webhook.timeout);
                Err(SinkRefusal::Away { error, retry_after: None })
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
fn refusal_of_attempt(attempt: AttemptOutcome) -> SinkRefusal {
    let (error, retry_after) = match attempt {
        AttemptOutcome::Transient { error, retry_after } => (error, retry_after),
        AttemptOutcome::Permanent { error } | AttemptOutcome::Pause { error } => (error, None),
        AttemptOutcome::Success { .. } => {
            let message = "the answer is a success but was not accepted as one".to_owned();
            (ActionFailure { class: ErrorClass::Internal, message, status: None }, None)
        }
    };
    let error = http_answer::shorten_error(error);
    match error.status {
        None | Some(429 | 503) => SinkRefusal::Away { error: error.to_string(), retry_after },
        Some(_) => SinkRefusal::Refused { error: error.to_string() },
    }
}

//! Batches of events: one JSON document per line, with a result for each.

use millstream_api::events::{AcceptedEvent, EventLine};
use millstream_api::verdicts::{Verdict, Verdicts};
use serde::Serialize;
use uuid::Uuid;

use super::connect::Client;
use super::json::{self, JsonText};
use super::transport::{ApiRequest, RepeatPolicy};
use crate::client_error::ClientError;

/// The server's limits per request, with a margin.
const MOST_ITEMS: usize = 1_000;
const MOST_BYTES: usize = 7 * 1024 * 1024;

/// An event to be sent in a batch.
#[derive(Debug, Clone)]
pub struct NewEvent {
    execution: String,
    name: String,
    payload: Option<JsonText>,
    key: Option<String>,
}

/// The result of an item of a batch.
pub(crate) fn result_of_verdict<T>(verdict: Verdict<T>) -> Result<T, ClientError> {
    match verdict {
        Verdict::Done(done) => Ok(done),
        Verdict::Refused { problem } => Err(ClientError::Refused(Box::new((*problem).into()))),
    }
}

impl NewEvent {
    pub fn to(execution: impl Into<String>, name: impl Into<String>) -> Self {
        Self { execution: execution.into(), name: name.into(), payload: None, key: None }
    }

    #[must_use]
    pub fn payload(mut self, payload: impl Serialize) -> Self {
        self.payload = Some(JsonText::of_value(&payload));
        self
    }

    /// A caller-supplied idempotency key. By default each call creates its own.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    fn batch_line(&self) -> Result<Vec<u8>, ClientError> {
        let key = self.key.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
        json::json_body(&EventLine {
            execution_id: self.execution.clone(),
            name: self.name.clone(),
            payload: json::get(self.payload.as_ref())?,
            idempotency_key: Some(key),
        })
    }
}

impl Client {
    /// Sends many events, for any executions, up to a thousand per request, and returns a result for each, in
    /// order. Accepted events are durable.
    ///
    /// After an error some may have been accepted: supply your own keys to make the call repeatable.
    pub async fn send_many(
        &self,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Result<Vec<Result<AcceptedEvent, ClientError>>, ClientError> {
        let mut verdicts = Vec::new();
        for body in batch_bodies(events)? {
            let ask =
                ApiRequest::post("/v1/events", RepeatPolicy::Always).with_body("application/x-ndjson", body);
            let answer: Verdicts<AcceptedEvent> = self.send_request(&ask).await?.json()?;
            verdicts.extend(answer.items.into_iter().map(result_of_verdict));
        }
        Ok(verdicts)
    }
}

/// Splits the events into requests within the server's limits.
fn batch_bodies(events: impl IntoIterator<Item = NewEvent>) -> Result<Vec<Vec<u8>>, ClientError> {
    let (mut bodies, mut items) = (Vec::<Vec<u8>>::new(), 0);
    for event in events {
        let mut line = event.batch_line()?;
        line.push(b'\n');
        match bodies.last_mut() {
            Some(body) if items < MOST_ITEMS && body.len() + line.len() <= MOST_BYTES => {
                body.extend_from_slice(&line);
                items += 1;
            }
            Some(_) | None => {
                bodies.push(line);
                items = 1;
            }
        }
    }
    Ok(bodies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_batch_is_split_by_size() {
        let many = (0..2_001).map(|n| NewEvent::to("x", "tick").payload(n));
        let lines: Vec<usize> = batch_bodies(many)
            .unwrap()
            .iter()
            .map(|body| body.iter().filter(|byte| **byte == b'\n').count())
            .collect();
        assert_eq!(lines, [1_000, 1_000, 1]);
        let heavy = (0..3).map(|_| NewEvent::to("x", "tick").payload("x".repeat(3 * 1024 * 1024)));
        assert_eq!(batch_bodies(heavy).unwrap().len(), 2);
        assert!(batch_bodies([]).unwrap().is_empty());
    }

    #[test]
    fn batched_event_keeps_its_key() {
        let line = NewEvent::to("x", "tick").key("k").batch_line().unwrap();
        assert_eq!(
            String::from_utf8(line).unwrap(),
            r#"{"execution_id":"x","name":"tick","idempotency_key":"k"}"#
        );
    }
}

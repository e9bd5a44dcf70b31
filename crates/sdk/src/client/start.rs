//! Starts executions: single ones or batches, each with its first events.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use millstream_api::events::EventToPost;
use millstream_api::executions::{Execution, ExecutionToStart, ExecutionsToStart};
use millstream_api::verdicts::Verdicts;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::connect::Client;
use super::event_batch::result_of_verdict;
use super::json::{self, JsonText};
use super::send::prefer_wait;
use super::transport::{ApiRequest, RepeatPolicy};
use crate::client_error::ClientError;

/// The server's limit of starts per request.
const MOST: usize = 1_000;

/// An execution to start.
#[derive(Debug, Clone)]
pub struct NewExecution {
    definition: String,
    version: Option<i32>,
    id: Option<String>,
    input: Option<JsonText>,
    events: Vec<(String, Option<JsonText>)>,
}

/// A start; awaiting it sends it.
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct StartExecution {
    client: Client,
    new: NewExecution,
    wait: Option<Duration>,
}

impl NewExecution {
    /// Of the latest version of this definition, with a random id and without input by default.
    pub fn of(definition: impl Into<String>) -> Self {
        Self { definition: definition.into(), version: None, id: None, input: None, events: Vec::new() }
    }

    /// A caller-supplied id. The same start with the same id is one execution; another start with that id is
    /// refused (409).
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Uses this version instead of the latest.
    #[must_use]
    pub fn version(mut self, version: i32) -> Self {
        self.version = Some(version);
        self
    }

    /// Merged over the definition's context.
    #[must_use]
    pub fn input(mut self, input: impl Serialize) -> Self {
        self.input = Some(JsonText::of_value(&input));
        self
    }

    /// Adds an event that is appended in the same commit.
    #[must_use]
    pub fn event(mut self, name: impl Into<String>) -> Self {
        self.events.push((name.into(), None));
        self
    }

    /// The same with a payload.
    #[must_use]
    pub fn event_with(mut self, name: impl Into<String>, payload: impl Serialize) -> Self {
        self.events.push((name.into(), Some(JsonText::of_value(&payload))));
        self
    }

    fn request_body<'a>(&'a self) -> Result<ExecutionToStart<&'a RawValue>, ClientError> {
        let first = |(name, payload): &'a (String, Option<JsonText>)| match json::get(payload.as_ref()) {
            Ok(payload) => Ok(EventToPost { name: name.clone(), payload }),
            Err(error) => Err(ClientError::Unsendable(format!("the payload of {name:?}: {error}"))),
        };
        let events = self.events.iter().map(first).collect::<Result<Vec<_>, _>>()?;
        Ok(ExecutionToStart {
            definition: self.definition.clone(),
            version: self.version,
            execution_id: Some(self.id.clone().unwrap_or_else(|| Uuid::now_v7().to_string())),
            input: json::get(self.input.as_ref())?,
            events: Some(events).filter(|events| !events.is_empty()),
        })
    }
}

impl From<&str> for NewExecution {
    fn from(definition: &str) -> Self {
        Self::of(definition)
    }
}

impl Client {
    /// Starts an execution, from a definition's name or a [`NewExecution`]; sent when awaited.
    ///
    /// The answer does not say whether the execution is new: a retry after a lost answer could not tell.
    pub fn start(&self, new: impl Into<NewExecution>) -> StartExecution {
        StartExecution { client: self.clone(), new: new.into(), wait: None }
    }

    /// Starts many executions, a thousand per request, and returns a result for each, in order.
    ///
    /// After an error some may have been started: supply your own ids to make the call repeatable.
    pub async fn start_many(
        &self,
        starts: impl IntoIterator<Item = NewExecution>,
    ) -> Result<Vec<Result<Execution, ClientError>>, ClientError> {
        let starts: Vec<NewExecution> = starts.into_iter().collect();
        let mut verdicts = Vec::with_capacity(starts.len());
        for some in starts.chunks(MOST) {
            let bodies = some.iter().map(NewExecution::request_body).collect::<Result<Vec<_>, _>>()?;
            let body = json::json_body(&ExecutionsToStart::Many(bodies))?;
            let ask = ApiRequest::post("/v1/executions", RepeatPolicy::Always).with_json(body);
            let answer: Verdicts<Execution> = self.send_request(&ask).await?.json()?;
            verdicts.extend(answer.items.into_iter().map(result_of_verdict));
        }
        Ok(verdicts)
    }
}

impl StartExecution {
    /// See [`NewExecution::id`].
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { new: self.new.id(id), ..self }
    }

    /// See [`NewExecution::version`].
    pub fn version(self, version: i32) -> Self {
        Self { new: self.new.version(version), ..self }
    }

    /// See [`NewExecution::input`].
    pub fn input(self, input: impl Serialize) -> Self {
        Self { new: self.new.input(input), ..self }
    }

    /// See [`NewExecution::event`].
    pub fn event(self, name: impl Into<String>) -> Self {
        Self { new: self.new.event(name), ..self }
    }

    /// See [`NewExecution::event_with`].
    pub fn event_with(self, name: impl Into<String>, payload: impl Serialize) -> Self {
        Self { new: self.new.event_with(name, payload), ..self }
    }

    /// Waits until its first events are settled, at most a minute.
    pub fn wait(self, longest: Duration) -> Self {
        Self { wait: Some(longest), ..self }
    }
}

impl IntoFuture for StartExecution {
    type Output = Result<Execution, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut ask = ApiRequest::post("/v1/executions", RepeatPolicy::Always)
                .with_json(json::json_body(&self.new.request_body()?)?);
            if let Some(wait) = self.wait {
                ask = ask.add_header("prefer", prefer_wait(wait)).with_server_wait(wait);
            }
            self.client.send_request(&ask).await?.json()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execution_start_matches_api() {
        let new = NewExecution::of("order").id("o-1").version(2).input([1, 2]).event("a").event_with("b", 7);
        let body = serde_json::to_string(&new.request_body().unwrap()).unwrap();
        assert_eq!(
            body,
            r#"{"definition":"order","version":2,"execution_id":"o-1","input":[1,2],"events":[{"name":"a"},{"name":"b","payload":7}]}"#
        );
    }

    #[test]
    fn unserialisable_input_fails_on_send() {
        let bad = std::collections::HashMap::from([((1, 2), 3)]);
        assert!(NewExecution::of("order").input(&bad).request_body().is_err());
        let error = NewExecution::of("order").event_with("pay", &bad).request_body().unwrap_err();
        assert!(error.to_string().contains("pay"), "{error}");
    }
}

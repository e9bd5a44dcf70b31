//! The HTTP API as methods, for readable cases.
//!
//! A method asserts the contract's status and returns the document. Cases about other answers use
//! [`E2eApi::client`] directly.

use millstream_testkit::{TestClient, TestReply, eventually};
use serde_json::{Value, json};

use crate::world::SOON;

#[derive(Debug, Clone)]
pub(crate) struct E2eApi {
    pub(crate) client: TestClient,
}

impl E2eApi {
    pub(crate) fn new(client: TestClient) -> Self {
        Self { client }
    }

    /// Stores a definition written in YAML.
    pub(crate) async fn apply(&self, yaml: &str) -> Value {
        let reply = self.client.post_raw("/v1/definitions", "application/yaml", yaml.to_owned()).await;
        assert!([200, 201].contains(&reply.status), "apply: {} {}", reply.status, reply.body);
        reply.json()
    }

    /// Starts an execution and returns its id.
    pub(crate) async fn start(&self, definition: &str, input: Value) -> String {
        let body = json!({ "definition": definition, "input": input });
        let execution = self.client.post("/v1/executions", &body).await.expect_status(201);
        text_field(&execution, "execution_id")
    }

    /// Starts an execution under this id, with these events in its mailbox.
    pub(crate) async fn start_with_events(
        &self,
        definition: &str,
        execution: &str,
        input: Value,
        events: &[&str],
    ) {
        let events: Vec<_> = events.iter().map(|name| json!({ "name": name })).collect();
        let body = json!({
            "definition": definition, "execution_id": execution, "input": input, "events": events,
        });
        self.client.post("/v1/executions", &body).await.expect_status(201);
    }

    pub(crate) async fn post_event(&self, execution: &str, name: &str, payload: Value) -> TestReply {
        let body = json!({ "name": name, "payload": payload });
        self.client.post(&format!("/v1/executions/{execution}/events"), &body).await
    }

    pub(crate) async fn post_event_with(
        &self,
        execution: &str,
        headers: &[(&str, &str)],
        name: &str,
        payload: Value,
    ) -> TestReply {
        let body = json!({ "name": name, "payload": payload });
        self.client.post_with(&format!("/v1/executions/{execution}/events"), headers, &body).await
    }

    /// Sends an event and returns its id.
    pub(crate) async fn send(&self, execution: &str, name: &str, payload: Value) -> String {
        text_field(&self.post_event(execution, name, payload).await.expect_status(202), "event_id")
    }

    /// Sends an event and waits for its final status.
    pub(crate) async fn send_and_settle(&self, execution: &str, name: &str, payload: Value) -> Value {
        let event = self.send(execution, name, payload).await;
        self.settled_event(&event).await
    }

    pub(crate) async fn event(&self, event: &str) -> Value {
        self.client.get(&format!("/v1/events/{event}")).await.expect_status(200)
    }

    pub(crate) async fn execution(&self, execution: &str) -> Value {
        self.client.get(&format!("/v1/executions/{execution}")).await.expect_status(200)
    }

    /// Items of one of an execution's lists: `history`, `actions`, `timers`.
    pub(crate) async fn list(&self, execution: &str, what: &str) -> Vec<Value> {
        self.all_pages(&format!("/v1/executions/{execution}/{what}")).await
    }

    /// All events that an execution was ever sent, in whatever state.
    pub(crate) async fn events_of(&self, execution: &str) -> Vec<Value> {
        self.all_pages(&format!("/v1/events?execution_id={execution}")).await
    }

    /// The items of every page of a list.
    pub(crate) async fn all_pages(&self, path: &str) -> Vec<Value> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let path = match &cursor {
                Some(cursor) => {
                    format!("{path}{}cursor={cursor}", if path.contains('?') { '&' } else { '?' })
                }
                None => path.to_owned(),
            };
            let page = self.client.get(&path).await.expect_status(200);
            found.extend(page_items(&page));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return found,
            }
        }
    }

    /// The names in the history, in order.
    pub(crate) async fn transition_names(&self, execution: &str) -> Vec<String> {
        self.list(execution, "history").await.iter().map(|entry| text_field(entry, "name")).collect()
    }

    /// The event once it is completed, rejected, failed or dead.
    pub(crate) async fn settled_event(&self, event: &str) -> Value {
        self.event_until(event, |seen| {
            ["completed", "rejected", "failed", "dead"].contains(&seen["status"].as_str().unwrap_or_default())
        })
        .await
    }

    pub(crate) async fn event_in(&self, event: &str, status: &str) -> Value {
        self.event_until(event, |seen| seen["status"] == status).await
    }

    pub(crate) async fn event_until(&self, event: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(SOON, || async {
            let seen = self.event(event).await;
            if is_so(&seen) { Ok(seen) } else { Err(seen) }
        })
        .await
    }

    pub(crate) async fn execution_until(&self, execution: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(SOON, || async {
            let seen = self.execution(execution).await;
            if is_so(&seen) { Ok(seen) } else { Err(seen) }
        })
        .await
    }

    pub(crate) async fn execution_at(&self, execution: &str, state: &str) -> Value {
        self.execution_until(execution, |seen| seen["state"] == state).await
    }

    pub(crate) async fn execution_in(&self, execution: &str, status: &str) -> Value {
        self.execution_until(execution, |seen| seen["status"] == status).await
    }
}

/// Actions, and the incidents that they lead to.
impl E2eApi {
    /// The newest action of this name.
    pub(crate) async fn latest_action(&self, execution: &str, action: &str) -> Option<Value> {
        self.list(execution, "actions").await.into_iter().rfind(|item| item["action"] == action)
    }

    pub(crate) async fn action_in(&self, execution: &str, action: &str, status: &str) -> Value {
        eventually(SOON, || async {
            match self.latest_action(execution, action).await {
                Some(seen) if seen["status"] == status => Ok(seen),
                other => Err(other),
            }
        })
        .await
    }

    /// The one open incident of an execution, with details of its action.
    pub(crate) async fn open_incident(&self, execution: &str) -> Value {
        let path = format!("/v1/incidents?status=open&execution_id={execution}");
        let incident = eventually(SOON, || async {
            let open = self.all_pages(&path).await;
            if let [incident] = open.as_slice() { Ok(text_field(incident, "incident_id")) } else { Err(open) }
        })
        .await;
        self.client.get(&format!("/v1/incidents/{incident}")).await.expect_status(200)
    }

    pub(crate) async fn post_resolution(&self, incident: &Value, how: &str, body: &Value) -> TestReply {
        let id = text_field(incident, "incident_id");
        self.client.post(&format!("/v1/incidents/{id}/{how}"), body).await
    }

    /// Resolves an incident.
    pub(crate) async fn resolve(&self, incident: &Value, how: &str, body: Value) -> Value {
        self.post_resolution(incident, how, &body).await.expect_status(202)
    }
}

/// A field that must be there as text.
#[track_caller]
pub(crate) fn text_field(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no text {field:?} in {value}")).to_owned()
}

/// The items of a page.
#[track_caller]
pub(crate) fn page_items(page: &Value) -> Vec<Value> {
    page["items"].as_array().unwrap_or_else(|| panic!("no items in {page}")).clone()
}

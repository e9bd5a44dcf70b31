//! A client: posts sequentially, records every answer, and repeats unanswered posts.
//!
//! An unanswered post may be durable or not: the client posts it again under the same key, perhaps at another
//! ingress, or gives up.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::graph_load;
use crate::history::{SimAnswer, SimPost};
use crate::tally::SimCount;
use crate::wire::{IngressSlots, SimWire, get_request, is_doubtful, post_json, post_request};
use crate::workload::{ClientRequest, ClientScript, POISON};
use crate::world::SimWorld;

#[derive(Debug)]
pub(crate) struct SimClient {
    wire: SimWire,
    name: String,
    number: usize,
    posts: Vec<SimPost>,
}

impl SimClient {
    pub(crate) fn new(world: &Arc<SimWorld>, doors: &IngressSlots, script: &ClientScript) -> Self {
        let (wire, number) = (SimWire::of_tenant(world, doors, script.tenant), script.client);
        Self { wire, name: format!("c{number}"), number, posts: Vec::new() }
    }

    /// Returns everything that it posted, in order.
    pub(crate) async fn play_script(mut self, script: ClientScript) -> Vec<SimPost> {
        for step in script.steps {
            tokio::time::sleep(step.after).await;
            match step.wish {
                ClientRequest::Start { definition, execution } => {
                    self.start_execution(definition, execution).await
                }
                ClientRequest::Keyed(events) => match &events[..] {
                    [(execution, name)] => self.post_keyed(execution, name).await,
                    _ => self.post_batch(events).await,
                },
                ClientRequest::Unkeyed(execution, name) => self.post_unkeyed(&execution, name).await,
                ClientRequest::Cancel(execution) => self.cancel_execution(execution).await,
                ClientRequest::Graph(id, items) => self.create_graph(id, items).await,
                ClientRequest::Edit(id) => self.edit_graph(&id).await,
                ClientRequest::RetryLast => self.retry_last().await,
            }
        }
        self.posts
    }

    async fn start_execution(&mut self, definition: &str, execution: String) {
        let marker = self.next_marker(0);
        let body = json!({ "definition": definition, "execution_id": execution, "input": { "k": marker } });
        let request = || post_request("/v1/executions", None, "application/json", body.to_string());
        let heard = self.wire.until_answered(request).await;
        // The answer contains the execution and not the start event.
        let answer = match heard {
            Some((status, _)) if status.is_success() => SimAnswer::Started,
            Some((status, _)) => SimAnswer::Refused { status: status.as_u16() },
            None => SimAnswer::Unknown,
        };
        self.record_post(execution, "millstream.start", marker, answer);
    }

    async fn create_graph(&mut self, id: String, items: u64) {
        let (marker, body) = (self.next_marker(0), graph_load::graph_body(&id, items));
        let heard = self.wire.until_answered(|| post_json("/v1/graphs", &body)).await;
        let answer = match heard {
            Some((status, _)) if status.is_success() => SimAnswer::Started,
            Some((status, _)) => SimAnswer::Refused { status: status.as_u16() },
            None => SimAnswer::Unknown,
        };
        self.record_post(id, "millstream.start", marker, answer);
    }

    /// Adds a node to the graph's present revision; a concurrent edit may win.
    async fn edit_graph(&mut self, id: &str) {
        let Some((status, found)) =
            self.wire.until_answered(|| get_request(&format!("/v1/graphs/{id}"))).await
        else {
            return;
        };
        let Some(revision) = found["revision"].as_u64().filter(|_| status.is_success()) else { return };
        let marker = self.next_marker(0);
        let body = graph_load::edit_body(revision, &format!("by-{marker}")).to_string();
        let path = format!("/v1/graphs/{id}/edits");
        let request = || post_request(&path, Some(&marker), "application/json", body.clone());
        let heard = self.wire.until_answered(request).await;
        let status = heard.map(|(status, _)| status.as_u16());
        self.wire.world.trace_line(&self.name, || format!("edit of {id} at {revision} → {status:?}"));
        if status == Some(200) {
            self.wire.world.count(SimCount::GraphEdits);
        }
    }

    async fn post_keyed(&mut self, execution: &str, name: &str) {
        let marker = self.next_marker(0);
        let body = json!({ "name": name, "payload": { "k": marker, "n": self.posts.len() } });
        let path = format!("/v1/executions/{execution}/events");
        let request = || post_request(&path, Some(&marker), "application/json", body.to_string());
        let heard = self.wire.until_answered(request).await;
        let answer = heard.map_or(SimAnswer::Unknown, |(status, body)| answer_of(status, &body));
        self.record_post(execution.to_owned(), name, marker, answer);
    }

    async fn post_unkeyed(&mut self, execution: &str, name: &str) {
        let marker = self.next_marker(0);
        let body = json!({ "name": name, "payload": { "k": marker, "n": self.posts.len() } });
        let path = format!("/v1/executions/{execution}/events");
        let heard =
            self.wire.exchange_request(post_request(&path, None, "application/json", body.to_string())).await;
        let answer = heard.filter(|(status, _)| !is_doubtful(*status));
        let answer = answer.map_or(SimAnswer::Unknown, |(status, body)| self::answer_of(status, &body));
        self.record_post(execution.to_owned(), name, marker, answer);
    }

    async fn post_batch(&mut self, events: Vec<(String, &'static str)>) {
        let markers: Vec<String> = (0..events.len()).map(|at| self.next_marker(at)).collect();
        let line = |((execution, name), marker): (&(String, &str), &String)| {
            json!({
                "execution_id": execution, "name": name, "idempotency_key": marker,
                "payload": { "k": marker, "n": self.posts.len() },
            })
            .to_string()
        };
        let lines: Vec<String> = events.iter().zip(&markers).map(line).collect();
        let request = || post_request("/v1/events", None, "application/x-ndjson", lines.join("\n"));
        let heard = self.wire.until_answered(request).await;
        for (at, ((execution, name), marker)) in events.into_iter().zip(markers).enumerate() {
            let answer = match &heard {
                None => SimAnswer::Unknown,
                Some((StatusCode::ACCEPTED, body)) => {
                    let item = &body["items"][at];
                    let status = item["problem"]["status"].as_u64().unwrap_or(202);
                    let status = u16::try_from(status).ok().and_then(|code| StatusCode::from_u16(code).ok());
                    answer_of(status.unwrap_or(StatusCode::ACCEPTED), item)
                }
                Some((status, _)) => SimAnswer::Refused { status: status.as_u16() },
            };
            self.record_post(execution, name, marker, answer);
        }
    }

    async fn cancel_execution(&mut self, execution: String) {
        let marker = self.next_marker(0);
        let path = format!("/v1/executions/{execution}/cancel");
        let body = json!({ "reason": marker });
        let request = || post_request(&path, Some(&marker), "application/json", body.to_string());
        let heard = self.wire.until_answered(request).await;
        let answer = heard.map_or(SimAnswer::Unknown, |(status, body)| answer_of(status, &body));
        self.record_post(execution, "millstream.cancel", marker, answer);
    }

    /// Resolves the failure of a paused execution as a person would. Refused where nothing has failed.
    async fn retry_last(&mut self) {
        let risky = |post: &&SimPost| post.name == "charge" || post.name == POISON;
        let Some(SimAnswer::Acknowledged { event }) =
            self.posts.iter().rev().find(risky).map(|post| &post.answer)
        else {
            return;
        };
        let path = format!("/v1/events/{event}/retry");
        let heard =
            self.wire.until_answered(|| post_request(&path, None, "application/json", "{}".to_owned())).await;
        self.wire.world.trace_line(&self.name, || {
            format!("retry {event} → {:?}", heard.as_ref().map(|(status, _)| status))
        });
        if heard.is_some_and(|(status, _)| status.is_success()) {
            self.wire.world.count(SimCount::Retried);
        }
    }

    /// Unique in the run; also the idempotency key.
    fn next_marker(&self, at: usize) -> String {
        format!("{}-{}-{at}", self.name, self.posts.len())
    }

    fn record_post(&mut self, execution: String, name: &str, marker: String, answer: SimAnswer) {
        self.wire.world.trace_line(&self.name, || format!("{execution} {name} {marker} → {answer:?}"));
        self.wire.world.count(match answer {
            SimAnswer::Acknowledged { .. } | SimAnswer::Started => SimCount::Acknowledged,
            SimAnswer::Refused { .. } => SimCount::RefusedPosts,
            SimAnswer::Unknown => SimCount::LeftUnanswered,
        });
        self.posts.push(SimPost { client: self.number, execution, name: name.to_owned(), marker, answer });
    }
}

fn answer_of(status: StatusCode, body: &Value) -> SimAnswer {
    match body["event_id"].as_str() {
        Some(event) if status.is_success() => SimAnswer::Acknowledged { event: event.to_owned() },
        Some(_) | None => SimAnswer::Refused { status: status.as_u16() },
    }
}

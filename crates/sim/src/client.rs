//! A client: posts sequentially, records every answer, and repeats unanswered posts.
//!
//! An unanswered post may be durable or not: the client posts it again under the same key, perhaps at another
//! ingress, or gives up.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::graph_load;
use crate::history::{Answer, Post};
use crate::tally::Count;
use crate::wire::{Doors, Wire, get, is_doubtful, post, post_json};
use crate::workload::{POISON, Script, Wish};
use crate::world::World;

#[derive(Debug)]
pub(crate) struct Client {
    wire: Wire,
    name: String,
    number: usize,
    posts: Vec<Post>,
}

impl Client {
    pub(crate) fn new(world: &Arc<World>, doors: &Doors, script: &Script) -> Self {
        let (wire, number) = (Wire::of_tenant(world, doors, script.tenant), script.client);
        Self { wire, name: format!("c{number}"), number, posts: Vec::new() }
    }

    /// Returns everything that it posted, in order.
    pub(crate) async fn play(mut self, script: Script) -> Vec<Post> {
        for step in script.steps {
            tokio::time::sleep(step.after).await;
            match step.wish {
                Wish::Start { definition, execution } => self.start(definition, execution).await,
                Wish::Keyed(events) => match &events[..] {
                    [(execution, name)] => self.one(execution, name).await,
                    _ => self.batch(events).await,
                },
                Wish::Unkeyed(execution, name) => self.once(&execution, name).await,
                Wish::Cancel(execution) => self.cancel(execution).await,
                Wish::Graph(id, items) => self.graph(id, items).await,
                Wish::Edit(id) => self.edit(&id).await,
                Wish::RetryLast => self.retry_last().await,
            }
        }
        self.posts
    }

    async fn start(&mut self, definition: &str, execution: String) {
        let marker = self.marker(0);
        let body = json!({ "definition": definition, "execution_id": execution, "input": { "k": marker } });
        let request = || post("/v1/executions", None, "application/json", body.to_string());
        let heard = self.wire.until_answered(request).await;
        // The answer contains the execution and not the start event.
        let answer = match heard {
            Some((status, _)) if status.is_success() => Answer::Started,
            Some((status, _)) => Answer::Refused { status: status.as_u16() },
            None => Answer::Unknown,
        };
        self.note(execution, "millstream.start", marker, answer);
    }

    async fn graph(&mut self, id: String, items: u64) {
        let (marker, body) = (self.marker(0), graph_load::body(&id, items));
        let heard = self.wire.until_answered(|| post_json("/v1/graphs", &body)).await;
        let answer = match heard {
            Some((status, _)) if status.is_success() => Answer::Started,
            Some((status, _)) => Answer::Refused { status: status.as_u16() },
            None => Answer::Unknown,
        };
        self.note(id, "millstream.start", marker, answer);
    }

    /// Adds a node to the graph's present revision; a concurrent edit may win.
    async fn edit(&mut self, id: &str) {
        let Some((status, found)) = self.wire.until_answered(|| get(&format!("/v1/graphs/{id}"))).await
        else {
            return;
        };
        let Some(revision) = found["revision"].as_u64().filter(|_| status.is_success()) else { return };
        let marker = self.marker(0);
        let body = graph_load::edit(revision, &format!("by-{marker}")).to_string();
        let path = format!("/v1/graphs/{id}/edits");
        let request = || post(&path, Some(&marker), "application/json", body.clone());
        let heard = self.wire.until_answered(request).await;
        let status = heard.map(|(status, _)| status.as_u16());
        self.wire.world.line(&self.name, || format!("edit of {id} at {revision} → {status:?}"));
        if status == Some(200) {
            self.wire.world.count(Count::GraphEdits);
        }
    }

    async fn one(&mut self, execution: &str, name: &str) {
        let marker = self.marker(0);
        let body = json!({ "name": name, "payload": { "k": marker, "n": self.posts.len() } });
        let path = format!("/v1/executions/{execution}/events");
        let request = || post(&path, Some(&marker), "application/json", body.to_string());
        let heard = self.wire.until_answered(request).await;
        let answer = heard.map_or(Answer::Unknown, |(status, body)| answer(status, &body));
        self.note(execution.to_owned(), name, marker, answer);
    }

    async fn once(&mut self, execution: &str, name: &str) {
        let marker = self.marker(0);
        let body = json!({ "name": name, "payload": { "k": marker, "n": self.posts.len() } });
        let path = format!("/v1/executions/{execution}/events");
        let heard = self.wire.exchange(post(&path, None, "application/json", body.to_string())).await;
        let answer = heard.filter(|(status, _)| !is_doubtful(*status));
        let answer = answer.map_or(Answer::Unknown, |(status, body)| self::answer(status, &body));
        self.note(execution.to_owned(), name, marker, answer);
    }

    async fn batch(&mut self, events: Vec<(String, &'static str)>) {
        let markers: Vec<String> = (0..events.len()).map(|at| self.marker(at)).collect();
        let line = |((execution, name), marker): (&(String, &str), &String)| {
            json!({
                "execution_id": execution, "name": name, "idempotency_key": marker,
                "payload": { "k": marker, "n": self.posts.len() },
            })
            .to_string()
        };
        let lines: Vec<String> = events.iter().zip(&markers).map(line).collect();
        let request = || post("/v1/events", None, "application/x-ndjson", lines.join("\n"));
        let heard = self.wire.until_answered(request).await;
        for (at, ((execution, name), marker)) in events.into_iter().zip(markers).enumerate() {
            let answer = match &heard {
                None => Answer::Unknown,
                Some((StatusCode::ACCEPTED, body)) => {
                    let item = &body["items"][at];
                    let status = item["problem"]["status"].as_u64().unwrap_or(202);
                    let status = u16::try_from(status).ok().and_then(|code| StatusCode::from_u16(code).ok());
                    answer(status.unwrap_or(StatusCode::ACCEPTED), item)
                }
                Some((status, _)) => Answer::Refused { status: status.as_u16() },
            };
            self.note(execution, name, marker, answer);
        }
    }

    async fn cancel(&mut self, execution: String) {
        let marker = self.marker(0);
        let path = format!("/v1/executions/{execution}/cancel");
        let body = json!({ "reason": marker });
        let request = || post(&path, Some(&marker), "application/json", body.to_string());
        let heard = self.wire.until_answered(request).await;
        let answer = heard.map_or(Answer::Unknown, |(status, body)| answer(status, &body));
        self.note(execution, "millstream.cancel", marker, answer);
    }

    /// Resolves the failure of a paused execution as a person would. Refused where nothing has failed.
    async fn retry_last(&mut self) {
        let risky = |post: &&Post| post.name == "charge" || post.name == POISON;
        let Some(Answer::Acknowledged { event }) =
            self.posts.iter().rev().find(risky).map(|post| &post.answer)
        else {
            return;
        };
        let path = format!("/v1/events/{event}/retry");
        let heard = self.wire.until_answered(|| post(&path, None, "application/json", "{}".to_owned())).await;
        self.wire
            .world
            .line(&self.name, || format!("retry {event} → {:?}", heard.as_ref().map(|(status, _)| status)));
        if heard.is_some_and(|(status, _)| status.is_success()) {
            self.wire.world.count(Count::Retried);
        }
    }

    /// Unique in the run; also the idempotency key.
    fn marker(&self, at: usize) -> String {
        format!("{}-{}-{at}", self.name, self.posts.len())
    }

    fn note(&mut self, execution: String, name: &str, marker: String, answer: Answer) {
        self.wire.world.line(&self.name, || format!("{execution} {name} {marker} → {answer:?}"));
        self.wire.world.count(match answer {
            Answer::Acknowledged { .. } | Answer::Started => Count::Acknowledged,
            Answer::Refused { .. } => Count::RefusedPosts,
            Answer::Unknown => Count::LeftUnanswered,
        });
        self.posts.push(Post { client: self.number, execution, name: name.to_owned(), marker, answer });
    }
}

fn answer(status: StatusCode, body: &Value) -> Answer {
    match body["event_id"].as_str() {
        Some(event) if status.is_success() => Answer::Acknowledged { event: event.to_owned() },
        Some(_) | None => Answer::Refused { status: status.as_u16() },
    }
}

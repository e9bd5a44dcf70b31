//! A client: posts one thing after the other, notes every answer, and repeats what was not answered.
//!
//! It speaks HTTP to the real router of an ingress, without a socket. A request can get lost on its way, and
//! so can its answer; an ingress that dies answers nobody. After that the client does not know what became
//! of its post, and posts it again under the same key, perhaps elsewhere, or gives up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::dice::Dice;
use crate::history::{Answer, Post};
use crate::process::Door;
use crate::tally::Count;
use crate::workload::{POISON, Script, Wish};
use crate::world::World;

/// A client that waits longer has given up on the connection.
const PATIENCE: Duration = Duration::from_secs(4);
const LONGEST_ANSWER: usize = 1 << 20;

pub(crate) type Doors = Arc<Vec<Arc<Mutex<Option<Door>>>>>;

#[derive(Debug)]
pub(crate) struct Client {
    world: Arc<World>,
    doors: Doors,
    dice: Dice,
    name: String,
    number: usize,
    posts: Vec<Post>,
}

/// An answer, if there is one.
type Heard = Option<(StatusCode, Value)>;

impl Client {
    pub(crate) fn new(world: &Arc<World>, doors: &Doors, number: usize) -> Self {
        Self {
            world: Arc::clone(world),
            doors: Arc::clone(doors),
            dice: world.dice.apart(),
            name: format!("c{number}"),
            number,
            posts: Vec::new(),
        }
    }

    /// Everything that it posted, in order.
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
                Wish::RetryLast => self.retry_last().await,
            }
        }
        self.posts
    }

    async fn start(&mut self, definition: &str, execution: String) {
        let marker = self.marker(0);
        let body = json!({ "definition": definition, "execution_id": execution, "input": { "k": marker } });
        let request = || post("/v1/executions", None, "application/json", body.to_string());
        let heard = self.until_answered(request).await;
        // The answer tells the execution and not the start event.
        let answer = match heard {
            Some((status, _)) if status.is_success() => Answer::Started,
            Some((status, _)) => Answer::Refused { status: status.as_u16() },
            None => Answer::Unknown,
        };
        self.note(execution, "millstream.start", marker, answer);
    }

    async fn one(&mut self, execution: &str, name: &str) {
        let marker = self.marker(0);
        let body = json!({ "name": name, "payload": { "k": marker, "n": self.posts.len() } });
        let path = format!("/v1/executions/{execution}/events");
        let request = || post(&path, Some(&marker), "application/json", body.to_string());
        let heard = self.until_answered(request).await;
        let answer = heard.map_or(Answer::Unknown, |(status, body)| answer(status, &body));
        self.note(execution.to_owned(), name, marker, answer);
    }

    async fn once(&mut self, execution: &str, name: &str) {
        let marker = self.marker(0);
        let body = json!({ "name": name, "payload": { "k": marker, "n": self.posts.len() } });
        let path = format!("/v1/executions/{execution}/events");
        let heard = self.exchange(post(&path, None, "application/json", body.to_string())).await;
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
        let heard = self.until_answered(request).await;
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
        let heard = self.until_answered(request).await;
        let answer = heard.map_or(Answer::Unknown, |(status, body)| answer(status, &body));
        self.note(execution, "millstream.cancel", marker, answer);
    }

    /// What a person does about an execution that is paused. Refused where nothing has failed.
    async fn retry_last(&mut self) {
        let risky = |post: &&Post| post.name == "charge" || post.name == POISON;
        let Some(Answer::Acknowledged { event }) =
            self.posts.iter().rev().find(risky).map(|post| &post.answer)
        else {
            return;
        };
        let path = format!("/v1/events/{event}/retry");
        let heard = self.until_answered(|| post(&path, None, "application/json", "{}".to_owned())).await;
        self.world
            .line(&self.name, || format!("retry {event} → {:?}", heard.as_ref().map(|(status, _)| status)));
        if heard.is_some_and(|(status, _)| status.is_success()) {
            self.world.count(Count::Retried);
        }
    }

    /// Unique in the run; also the key.
    fn marker(&self, at: usize) -> String {
        format!("{}-{}-{at}", self.name, self.posts.len())
    }

    fn note(&mut self, execution: String, name: &str, marker: String, answer: Answer) {
        self.world.line(&self.name, || format!("{execution} {name} {marker} → {answer:?}"));
        self.world.count(match answer {
            Answer::Acknowledged { .. } | Answer::Started => Count::Acknowledged,
            Answer::Refused { .. } => Count::RefusedPosts,
            Answer::Unknown => Count::LeftUnanswered,
        });
        self.posts.push(Post { client: self.number, execution, name: name.to_owned(), marker, answer });
    }

    /// Repeats until there is an answer that says something; now and then it gives up.
    async fn until_answered(&self, request: impl Fn() -> Request<Body>) -> Heard {
        for tries in 0..200 {
            if tries > 0 {
                self.world.count(Count::PostedAgain);
                tokio::time::sleep(self.dice.millis(20, 600)).await;
            }
            match self.exchange(request()).await {
                Some((status, body)) if !is_doubtful(status) => {
                    if tries > 0 && status.is_success() {
                        self.world.count(Count::AnsweredAsRepeat);
                    }
                    return Some((status, body));
                }
                Some(_) | None if tries > 0 && self.dice.one_in(12) => return None,
                Some(_) | None => {}
            }
        }
        None
    }

    /// One request and its answer, if it arrives.
    async fn exchange(&self, request: Request<Body>) -> Heard {
        let world = &self.world;
        world.count(Count::Posts);
        let door = self.doors.get(self.dice.index(self.doors.len()))?;
        let door = door.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        tokio::time::sleep(world.delay()).await;
        if world.strikes(world.plan.rates.lost_request) {
            world.count(Count::RequestLost);
            return None;
        }
        let answered = async {
            door.role.alive().await;
            let response = door.router.clone().oneshot(request).await.ok()?;
            let status = response.status();
            let bytes = to_bytes(response.into_body(), LONGEST_ANSWER).await.ok()?;
            door.role.alive().await;
            Some((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
        };
        let heard = tokio::select! {
            biased;
            () = door.role.died() => None,
            heard = tokio::time::timeout(PATIENCE, answered) => heard.ok().flatten(),
        };
        if world.strikes(world.plan.rates.lost_answer) {
            world.count(Count::AnswerLost);
            return None;
        }
        tokio::time::sleep(world.delay()).await;
        heard
    }
}

fn post(path: &str, key: Option<&str>, media: &str, body: String) -> Request<Body> {
    let mut request = Request::post(path).header(header::CONTENT_TYPE, media);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.body(Body::from(body)).unwrap_or_default()
}

/// Whether the post may or may not have become durable.
fn is_doubtful(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

fn answer(status: StatusCode, body: &Value) -> Answer {
    match body["event_id"].as_str() {
        Some(event) if status.is_success() => Answer::Acknowledged { event: event.to_owned() },
        Some(_) | None => Answer::Refused { status: status.as_u16() },
    }
}

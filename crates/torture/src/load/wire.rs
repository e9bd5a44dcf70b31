//! One request and its answer. The client switches to the other ingress when one does not answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::record::{Post, Record};
use crate::chance::Chance;
use crate::stage::Stage;

/// Client timeout.
const PATIENCE: Duration = Duration::from_secs(3);
/// Backoff before a retry.
pub(super) const PAUSE: Duration = Duration::from_millis(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted(Uuid),
    Refused(u16),
    Nothing,
}

#[derive(Debug)]
pub(super) struct Wire {
    http: reqwest::Client,
    doors: Vec<String>,
    door: usize,
}

impl Wire {
    pub(super) fn to(stage: &Arc<Stage>) -> Self {
        let doors = (0..stage.ingresses.len()).map(|number| stage.door(number)).collect();
        Self { http: stage.http.clone(), doors, door: 0 }
    }

    /// Switches to another ingress at random.
    pub(super) fn wander(&mut self, chance: &mut Chance) {
        if chance.percent(10) {
            self.door += 1;
        }
    }

    /// One answer per post. Posts that already have their answer are sent again too: a repeat.
    pub(super) async fn send(&mut self, posts: &[Post], record: &Record) -> Vec<Answer> {
        let answers = self.send_within(posts, PATIENCE, record).await;
        if answers.contains(&Answer::Nothing) {
            self.door += 1;
            tokio::time::sleep(PAUSE).await;
        }
        answers
    }

    pub(super) async fn send_within(
        &mut self,
        posts: &[Post],
        patience: Duration,
        record: &Record,
    ) -> Vec<Answer> {
        let door = &self.doors[self.door % self.doors.len()];
        let request = match posts {
            [post] => {
                let body = json!({ "name": post.name, "payload": { "n": post.n, "key": post.key } });
                let url = format!("{door}/v1/executions/{}/events", post.execution);
                self.http.post(url).header("idempotency-key", &post.key).json(&body)
            }
            posts => {
                let line = |post: &Post| {
                    let payload = json!({ "n": post.n, "key": post.key });
                    json!({ "execution_id": post.execution, "name": post.name, "payload": payload,
                            "idempotency_key": post.key })
                    .to_string()
                };
                let lines: Vec<String> = posts.iter().map(line).collect();
                let url = format!("{door}/v1/events");
                self.http.post(url).header("content-type", "application/x-ndjson").body(lines.join("\n"))
            }
        };
        let nothing = vec![Answer::Nothing; posts.len()];
        let Some((status, body)) = ask(request, patience, record).await else { return nothing };
        match (status, posts) {
            (200 | 202, [_]) => vec![event_id(&body).map_or(Answer::Nothing, Answer::Accepted)],
            (200 | 202, posts) => {
                let items = body["items"].as_array().cloned().unwrap_or_default();
                posts
                    .iter()
                    .enumerate()
                    .map(|(at, _)| items.get(at).map_or(Answer::Nothing, verdict))
                    .collect()
            }
            (status, posts) => vec![Answer::Refused(status); posts.len()],
        }
    }

    /// Starts an execution; returns whether it exists now.
    pub(super) async fn start(
        &mut self,
        id: &str,
        definition: &str,
        chance: &mut Chance,
        record: &Record,
    ) -> bool {
        if chance.percent(50) {
            self.door += 1;
        }
        let url = format!("{}/v1/executions", self.doors[self.door % self.doors.len()]);
        let body = json!({ "definition": definition, "execution_id": id });
        match ask(self.http.post(url).json(&body), PATIENCE, record).await {
            Some((200..300, _)) => true,
            Some((status, body)) => panic!("a start was refused with {status}: {body}"),
            None => {
                self.door += 1;
                false
            }
        }
    }
}

/// Status and document; none where a retry makes sense.
async fn ask(request: reqwest::RequestBuilder, patience: Duration, record: &Record) -> Option<(u16, Value)> {
    record.write().tries.requests += 1;
    let answered = async {
        let response = request.timeout(patience).send().await?;
        let status = response.status().as_u16();
        Ok::<_, reqwest::Error>((status, response.bytes().await?))
    };
    let (status, body) = match answered.await {
        Ok(answered) => answered,
        Err(_) => {
            record.write().tries.unanswered += 1;
            return None;
        }
    };
    if status == 429 || status >= 500 || status == 408 {
        record.write().tries.put_off += 1;
        return None;
    }
    Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

fn verdict(item: &Value) -> Answer {
    if let Some(event) = event_id(item) {
        return Answer::Accepted(event);
    }
    match item["problem"]["status"].as_u64().and_then(|status| u16::try_from(status).ok()) {
        Some(429 | 500..) | None => Answer::Nothing,
        Some(status) => Answer::Refused(status),
    }
}

fn event_id(document: &Value) -> Option<Uuid> {
    document["event_id"].as_str()?.parse().ok()
}

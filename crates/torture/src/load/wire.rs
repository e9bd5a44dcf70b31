//! One request and its answer. The client switches to the other ingress when one does not answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::record::{PostRecord, TorturePost};
use crate::chance::TortureRandom;
use crate::stage::TortureStage;

/// Client timeout.
const PATIENCE: Duration = Duration::from_secs(3);
/// Backoff before a retry.
pub(super) const PAUSE: Duration = Duration::from_millis(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostAnswer {
    Accepted(Uuid),
    Refused(u16),
    Nothing,
}

#[derive(Debug)]
pub(super) struct TortureWire {
    http: reqwest::Client,
    doors: Vec<String>,
    door: usize,
}

impl TortureWire {
    pub(super) fn to_stage(stage: &Arc<TortureStage>) -> Self {
        let doors = (0..stage.ingresses.len()).map(|number| stage.ingress_url(number)).collect();
        Self { http: stage.http.clone(), doors, door: 0 }
    }

    /// Switches to another ingress at random.
    pub(super) fn switch_ingress(&mut self, chance: &mut TortureRandom) {
        if chance.percent(10) {
            self.door += 1;
        }
    }

    /// One answer per post. Posts that already have their answer are sent again too: a repeat.
    pub(super) async fn send_posts(&mut self, posts: &[TorturePost], record: &PostRecord) -> Vec<PostAnswer> {
        let answers = self.send_within(posts, PATIENCE, record).await;
        if answers.contains(&PostAnswer::Nothing) {
            self.door += 1;
            tokio::time::sleep(PAUSE).await;
        }
        answers
    }

    pub(super) async fn send_within(
        &mut self,
        posts: &[TorturePost],
        patience: Duration,
        record: &PostRecord,
    ) -> Vec<PostAnswer> {
        let door = &self.doors[self.door % self.doors.len()];
        let request = match posts {
            [post] => {
                let body = json!({ "name": post.name, "payload": { "n": post.n, "key": post.key } });
                let url = format!("{door}/v1/executions/{}/events", post.execution);
                self.http.post(url).header("idempotency-key", &post.key).json(&body)
            }
            posts => {
                let line = |post: &TorturePost| {
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
        let nothing = vec![PostAnswer::Nothing; posts.len()];
        let Some((status, body)) = ask_with_patience(request, patience, record).await else { return nothing };
        match (status, posts) {
            (200 | 202, [_]) => vec![event_id(&body).map_or(PostAnswer::Nothing, PostAnswer::Accepted)],
            (200 | 202, posts) => {
                let items = body["items"].as_array().cloned().unwrap_or_default();
                posts
                    .iter()
                    .enumerate()
                    .map(|(at, _)| items.get(at).map_or(PostAnswer::Nothing, answer_of))
                    .collect()
            }
            (status, posts) => vec![PostAnswer::Refused(status); posts.len()],
        }
    }

    /// Starts an execution; returns whether it exists now.
    pub(super) async fn start_execution(
        &mut self,
        id: &str,
        definition: &str,
        chance: &mut TortureRandom,
        record: &PostRecord,
    ) -> bool {
        if chance.percent(50) {
            self.door += 1;
        }
        let url = format!("{}/v1/executions", self.doors[self.door % self.doors.len()]);
        let body = json!({ "definition": definition, "execution_id": id });
        match ask_with_patience(self.http.post(url).json(&body), PATIENCE, record).await {
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
async fn ask_with_patience(
    request: reqwest::RequestBuilder,
    patience: Duration,
    record: &PostRecord,
) -> Option<(u16, Value)> {
    record.lock_state().tries.requests += 1;
    let answered = async {
        let response = request.timeout(patience).send().await?;
        let status = response.status().as_u16();
        Ok::<_, reqwest::Error>((status, response.bytes().await?))
    };
    let (status, body) = match answered.await {
        Ok(answered) => answered,
        Err(_) => {
            record.lock_state().tries.unanswered += 1;
            return None;
        }
    };
    if status == 429 || status >= 500 || status == 408 {
        record.lock_state().tries.put_off += 1;
        return None;
    }
    Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

fn answer_of(item: &Value) -> PostAnswer {
    if let Some(event) = event_id(item) {
        return PostAnswer::Accepted(event);
    }
    match item["problem"]["status"].as_u64().and_then(|status| u16::try_from(status).ok()) {
        Some(429 | 500..) | None => PostAnswer::Nothing,
        Some(status) => PostAnswer::Refused(status),
    }
}

fn event_id(document: &Value) -> Option<Uuid> {
    document["event_id"].as_str()?.parse().ok()
}

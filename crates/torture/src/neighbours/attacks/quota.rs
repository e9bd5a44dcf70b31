//! A tenant that works at its quotas: a refusal names its quota, and every accepted event is applied.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::AttackScene;
use crate::neighbours::engine::HOSTILE;
use crate::neighbours::settled::QuotaOutcome;

const EXECUTIONS: usize = 16;
const CLIENTS: usize = 8;
/// Quotas that throttle a few clients all the time.
const EVENTS_PER_SECOND: u64 = 50;
const STARTS: u64 = 3;

pub(super) async fn work_at_quota(scene: &AttackScene) {
    let definition = format!(
        "name: frugal\ninitial: open\ncontext: {{ count: 0 }}\n\
         states: {{ open: {{ on: {{ tick: {{ set: {{ count: context.count + 1 }}, do: [call] }} }} }} }}\n\
         actions: {{ call: {{ http: {{ method: POST, url: \"{}\" }} }} }}\n",
        scene.swift
    );
    let hostile = &scene.fleet.hostile;
    let stored = hostile.request(Method::POST, "/v1/definitions").header("content-type", "application/yaml");
    scene.add_status(&stored.body(definition).send().await);
    for number in 0..EXECUTIONS {
        start_execution(scene, &execution_id(number)).await;
    }
    let open = scene.fleet.fleet_rows().await.used_quotas(HOSTILE).await["open_executions"];
    let quota = json!({ "events_per_second": EVENTS_PER_SECOND, "events_burst": EVENTS_PER_SECOND,
                        "open_executions": open + STARTS, "action_slots": 1 });
    scene.fleet.enforce_hostile_quota(quota).await;
    // The time of the attack starts now.
    let scene = &scene.begun_now();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let scene = scene.clone();
        clients.spawn(async move { post_keyed(&scene, client).await });
    }
    let mut number = 0;
    while !scene.is_over() {
        start_execution(scene, &format!("extra-{number}")).await;
        number += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    clients.join_all().await;
    scene.fleet.lift_hostile_quota().await;
}

fn execution_id(number: usize) -> String {
    format!("frugal-{number}")
}

async fn start_execution(scene: &AttackScene, execution: &str) {
    let body = json!({ "definition": "frugal", "execution_id": execution });
    let answer = scene.fleet.hostile.request(Method::POST, "/v1/executions").json(&body).send().await;
    scene.add_status(&answer);
    if let Ok(answer) = answer {
        let status = answer.status().as_u16();
        judge_answer(scene, status, &answer.json().await.unwrap_or_default());
    }
}

/// Posts one key after another, each until it is accepted, and then once more.
async fn post_keyed(scene: &AttackScene, client: usize) {
    let mut number = 0;
    while !scene.is_over() {
        let (execution, key) =
            (execution_id((client + number) % EXECUTIONS), format!("frugal-{client}-{number}"));
        number += 1;
        let mut answered = None;
        while answered.is_none() && !scene.is_over() {
            answered = post_event(scene, &execution, &key).await;
            if answered.is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let Some(event) = answered else {
            scene.quota.lock().unwrap_or_else(PoisonError::into_inner).in_doubt += 1;
            scene.ledger.doubt(1);
            return;
        };
        scene.ledger.accept(1);
        scene.quota.lock().unwrap_or_else(PoisonError::into_inner).accepted += 1;
        // A known key is answered, whatever the quota.
        let again = post_event(scene, &execution, &key).await;
        if again.as_ref() != Some(&event) {
            let wrong = format!("{key} was accepted as {event}; its repeat was answered {again:?}");
            scene.quota.lock().unwrap_or_else(PoisonError::into_inner).wrong.push(wrong);
        }
    }
}

/// The id of the event, if the post was accepted.
async fn post_event(scene: &AttackScene, execution: &str, key: &str) -> Option<String> {
    let request = scene.fleet.hostile.request(Method::POST, &format!("/v1/executions/{execution}/events"));
    let answer = request.header("idempotency-key", key).json(&json!({ "name": "tick" })).send().await;
    scene.add_status(&answer);
    let answer = answer.ok()?;
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap_or_default();
    judge_answer(scene, status, &body);
    body["event_id"].as_str().filter(|_| status == 202).map(str::to_owned)
}

/// Checks that a refusal names its quota.
fn judge_answer(scene: &AttackScene, status: u16, body: &Value) {
    let mut outcome = scene.quota.lock().unwrap_or_else(PoisonError::into_inner);
    match (status, body["quota"]["name"].as_str()) {
        (200..300, _) => {}
        (429 | 403, Some(quota)) => *outcome.refused.entry(quota.to_owned()).or_default() += 1,
        (_, _) => outcome.wrong.push(format!("answered {status} {body}")),
    }
}

/// Shared by the clients of the attack.
pub(super) type SharedOutcome = Arc<Mutex<QuotaOutcome>>;

/// Sum of the executions' counters.
pub(in crate::neighbours) async fn applied_at_quota(client: &millstream_testkit::TestClient) -> u64 {
    let mut applied = 0;
    for number in 0..EXECUTIONS {
        let found = client.get(&format!("/v1/executions/{}", execution_id(number))).await;
        applied += found.json()["context"]["count"].as_u64().unwrap_or(0);
    }
    applied
}

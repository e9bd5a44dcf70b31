//! Requests that wait: tails and long polls, up to the limits.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;

use super::AttackScene;

const TAILS: usize = 700;
const POLLS: usize = 5_000;
const PAUSE: Duration = Duration::from_millis(500);

/// Tails of an idle execution.
pub(super) async fn open_tails(scene: &AttackScene) {
    let execution = scene.noisy.first_execution();
    let mut tails = JoinSet::new();
    for number in 0..TAILS {
        let (scene, path) = (scene.clone(), format!("/v1/executions/{execution}/tail"));
        tails.spawn(async move {
            tokio::time::sleep(Duration::from_millis(number as u64 * 2)).await;
            let client = &scene.fleet.hostile;
            while !scene.is_over() {
                let answer = client.request(Method::GET, &path).send().await;
                scene.add_status(&answer);
                if let Ok(mut answer) = answer
                    && answer.status().is_success()
                {
                    while let Ok(Some(_)) = answer.chunk().await {}
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
    scene.sleep_until_over().await;
    tails.shutdown().await;
}

/// Workers that wait for tasks that never come.
pub(super) async fn open_long_polls(scene: &AttackScene) {
    let mut polls = JoinSet::new();
    for number in 0..POLLS {
        let scene = scene.clone();
        polls.spawn(async move {
            tokio::time::sleep(Duration::from_millis(number as u64)).await;
            let client = &scene.fleet.hostile;
            while !scene.is_over() {
                let wanted = json!({ "types": ["never"], "wait": 60 });
                scene.add_count("polls", 1);
                let answer = client.request(Method::POST, "/v1/tasks/lease").json(&wanted).send().await;
                scene.add_status(&answer);
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
    scene.sleep_until_over().await;
    polls.shutdown().await;
}

//! Hostile definitions: expressions that build gigabytes, a definition that starts itself, actions that never
//! end.

use std::time::Duration;

use millstream_testkit::TestClient;
use reqwest::Method;
use serde_json::{Value, json};

use super::AttackScene;
use super::ledger::post_events;

const EXPRESSIONS: &str = r#"
name: heavy
initial: open
context: { text: "", list: [], built: null }
states:
  open:
    on:
      feed: { set: { text: event.payload.text, list: event.payload.list } }
      build: { set: { built: "context.list.map(x, string(context.text))" } }
      scan: [{ if: "context.list.all(x, int(context.text) == 7)", to: open }, { to: open }]
      compare: [{ if: "context.list.exists(x, context.text + string(x) < context.text)", to: open }, { to: open }]
      double: { set: { built: "context.list.map(x, context.list.map(y, context.text + string(y)))" } }
"#;

const SELF_START: &str = r#"
name: hydra
initial: open
states:
  open: { on: { go: { to: grown, do: [left, right] } }, after: [{ in: 1ms, send: go }] }
  grown: { on: { never: { to: open } } }
actions:
  left: { start: { definition: hydra } }
  right: { start: { definition: hydra } }
"#;

pub(super) async fn evaluate_hostile_expressions(scene: &AttackScene) {
    let client = &scene.fleet.hostile;
    store_definition(scene, client, EXPRESSIONS.to_owned()).await;
    let executions: Vec<String> = (0..4).map(|number| format!("heavy-{number}")).collect();
    let payload = json!({ "text": "7".repeat(100_000), "list": (0..20_000).collect::<Vec<u32>>() });
    for execution in &executions {
        post_body(
            scene,
            client,
            "/v1/executions",
            json!({ "definition": "heavy", "execution_id": execution }),
        )
        .await;
        let path = format!("/v1/executions/{execution}/events");
        post_events(scene, &path, &json!({ "name": "feed", "payload": payload })).await;
    }
    let mut turn = 0;
    while !scene.is_over() {
        let name = ["build", "scan", "compare", "double"][turn % 4];
        let path = format!("/v1/executions/{}/events", executions[turn % executions.len()]);
        post_events(scene, &path, &json!({ "name": name })).await;
        turn += 1;
        if turn % 20 == 0 {
            fan_out(scene, client, turn).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A graph whose list of instances would be built from a long text for each of many items.
async fn fan_out(scene: &AttackScene, client: &TestClient, turn: usize) {
    let graph = json!({
        "graph_id": format!("fan-{turn}"),
        "input": { "l": (0..90_000).collect::<Vec<u32>>(), "s": "8".repeat(200_000) },
        "nodes": [{ "id": "all", "fan_out": { "over": "input.l.map(x, string(input.s))" }, "task": { "goal": "x" } }],
    });
    post_body(scene, client, "/v1/graphs", graph).await;
}

pub(super) async fn start_recursively(scene: &AttackScene) {
    let client = &scene.fleet.hostile;
    store_definition(scene, client, SELF_START.to_owned()).await;
    for number in 0..4 {
        let start = json!({ "definition": "hydra", "execution_id": format!("hydra-{number}") });
        post_body(scene, client, "/v1/executions", start).await;
    }
    scene.sleep_until_over().await;
}

/// Actions that occupy a slot for the maximum time of a definition.
pub(super) async fn call_tarpit(scene: &AttackScene) {
    let client = &scene.fleet.hostile;
    for (name, timeout) in [("tarpit-century", "36500d"), ("tarpit", "1h")] {
        let definition = format!(
            "name: {name}\ninitial: open\nstates: {{ open: {{ on: {{ go: {{ do: [call] }} }} }} }}\n\
             actions: {{ call: {{ http: {{ method: POST, url: \"{}\" }}, timeout: {timeout} }} }}\n",
            scene.tarpit
        );
        store_definition(scene, client, definition).await;
        let executions: Vec<Value> = (0..500)
            .map(|number| json!({ "definition": name, "execution_id": format!("{name}-{number}") }))
            .collect();
        post_body(scene, client, "/v1/executions", Value::from(executions)).await;
        for _ in 0..6 {
            let events: Vec<Value> = (0..500)
                .map(|number| json!({ "execution_id": format!("{name}-{number}"), "name": "go" }))
                .collect();
            post_events(scene, "/v1/events", &Value::from(events)).await;
        }
    }
    scene.sleep_until_over().await;
}

async fn store_definition(scene: &AttackScene, client: &TestClient, definition: String) {
    let request = client.request(Method::POST, "/v1/definitions");
    let answer = request.header("content-type", "application/yaml").body(definition).send().await;
    scene.add_status(&answer);
}

async fn post_body(scene: &AttackScene, client: &TestClient, path: &str, body: Value) {
    let answer = client.request(Method::POST, path).json(&body).send().await;
    scene.add_status(&answer);
}

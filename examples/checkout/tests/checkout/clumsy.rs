//! Functions that blunder: what they decide is done, and what they blurt out is seen by nobody.

use millstream_testkit::eventually;
use serde_json::{Value, json};

use crate::shop::{Built, SOON, Shop, TOKEN, apply, no_secret_anywhere};

const BLUNDERS: &str = "
name: blunders
initial: new
context: { how: null }
states:
  new: { on: { go: { to: working, do: [job] } } }
  working:
    on:
      done: { to: over, set: { got: event.payload.result } }
      lost: { to: left, set: { why: event.payload.error, attempts: event.payload.attempts } }
  over: { final: true }
  left: { final: failed }
actions:
  job:
    call: blunder
    input: { how: context.how, password: 'secret(\"payments_token\")' }
    timeouts: { heartbeat: 1s }
    retry: { attempts: 3, backoff: 10ms }
    on_success: done
    on_failure: lost
";

async fn open(built: Built) -> Shop {
    let shop = Shop::staffed(built, env!("CARGO_BIN_EXE_clumsy")).await;
    apply(&shop.api, BLUNDERS).await;
    shop
}

async fn begin(shop: &Shop, how: &str) {
    let start = json!({
        "definition": "blunders", "execution_id": how, "input": { "how": how }, "events": [{ "name": "go" }],
    });
    shop.api.post("/v1/executions", &start).await.expect_status(201);
}

async fn ends(shop: &Shop, how: &str, state: &str) -> Value {
    begin(shop, how).await;
    let context = shop.reaches(how, state).await["context"].clone();
    no_secret_anywhere(shop, how).await;
    context
}

async fn what_a_function_decides_is_done(built: Built) {
    let shop = open(built).await;
    let stumbled = ends(&shop, "stumble", "over").await;
    assert_eq!(stumbled["got"], 3, "{stumbled}");

    begin(&shop, "pause").await;
    eventually(SOON, || async {
        let execution = shop.execution("pause").await;
        if execution["status"] == "paused" { Ok(()) } else { Err(execution.to_string()) }
    })
    .await;
    let incidents = shop.api.get("/v1/incidents?status=open").await.expect_status(200);
    let incident = &incidents["items"][0];
    assert_eq!((&incident["class"], &incident["action"]), (&json!("doubt"), &json!("job")), "{incident}");
    let job = shop.action("pause", "job").await.unwrap();
    assert_eq!(job["attempts"], 1, "a person decides, whatever the definition says: {job}");
    no_secret_anywhere(&shop, "pause").await;
}

async fn what_a_function_blurts_out_is_seen_by_nobody(built: Built) {
    let shop = open(built).await;
    let repeated = ends(&shop, "repeat", "over").await;
    let mark = "[secret payments_token]";
    assert_eq!(repeated["got"], json!({ "it": mark, "in": format!("it is {mark}!") }), "it had it");

    let panicked = ends(&shop, "panic", "left").await;
    assert_eq!((&panicked["why"]["class"], &panicked["attempts"]), (&json!("internal"), &json!(3)));
    assert!(panicked["why"]["message"].as_str().unwrap().contains(mark), "{panicked}");
    assert!(shop.fleet.all_outputs().contains("panic while performing an action"), "and it is in the log");

    let rambled = ends(&shop, "ramble", "left").await;
    let message = rambled["why"]["message"].as_str().unwrap();
    assert!(message.len() < 5000, "it is cut: {} bytes", message.len());
    assert!(!message.contains(&TOKEN[..8]), "not a part of it either: {}", &message[4000..]);
}

async fn a_function_tells_its_progress_and_learns_that_nobody_wants_it(built: Built) {
    let shop = open(built).await;
    begin(&shop, "mutter").await;
    let muttering = eventually(SOON, || async {
        match shop.action("mutter", "job").await {
            Some(job) if !job["progress"].is_null() => Ok(job),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(muttering["progress"], json!({ "psst": "[secret payments_token]" }), "{muttering}");
    no_secret_anywhere(&shop, "mutter").await;
    shop.api.post("/v1/executions/mutter/cancel", &json!({ "reason": "enough" })).await.expect_status(202);
    let job = shop.action_is("mutter", "job", "failed").await;
    assert_eq!(job["error"]["class"], "unwanted", "{job}");
}

in_both_modes! {
    what_a_function_decides_is_done
    what_a_function_blurts_out_is_seen_by_nobody
    a_function_tells_its_progress_and_learns_that_nobody_wants_it
}

//! A function that takes longer than an attempt may: it is cut off, tried again, and then handled.

use serde_json::json;

use crate::shop::{Built, Shop, apply};

const HURRIED: &str = "
name: hurried
initial: new
states:
  new: { on: { go: { to: working, do: [job] } } }
  working:
    on:
      done: { to: over }
      late: { to: left, set: { why: event.payload.error, attempts: event.payload.attempts } }
  over: { final: true }
  left: { final: failed }
actions:
  job:
    call: pack
    input: { seconds: 60 }
    timeouts: { start_to_close: 400ms }
    retry: { attempts: 3, backoff: 10ms }
    on_success: done
    on_failure: late
";

async fn a_function_that_is_too_slow_is_cut_off_tried_again_and_handled(built: Built) {
    let shop = Shop::open(built).await;
    apply(&shop.api, HURRIED).await;
    let start = json!({"definition": "hurried", "execution_id": "h-1", "events": [{"name": "go"}]});
    shop.api.post("/v1/executions", &start).await.expect_status(201);
    let ended = shop.reaches("h-1", "left").await;
    let (why, attempts) = (&ended["context"]["why"], &ended["context"]["attempts"]);
    assert_eq!((&why["class"], attempts), (&json!("timeout"), &json!(3)), "{ended}");
    assert_eq!(why["message"], "no outcome within 400ms", "{ended}");
    assert_eq!(shop.action("h-1", "job").await.unwrap()["status"], "failed");
    let incidents = shop.api.get("/v1/incidents").await.expect_status(200);
    assert_eq!(incidents["items"], json!([]), "the definition handles it");
}

in_both_modes! {
    a_function_that_is_too_slow_is_cut_off_tried_again_and_handled
}

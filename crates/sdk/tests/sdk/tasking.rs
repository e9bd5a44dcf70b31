//! Tasks through the client: leased from a real engine, kept, completed, refused.

use std::time::Duration;

use millstream_sdk::client::{AfterTaskFailure, TaskLeaseQuery};
use serde_json::json;

use crate::world::{SOON, SdkWorld};

const ERRAND: &str = r#"
name: errand
initial: new
states:
  new: { on: { go: { to: gone, do: [fetch] } } }
  gone: { on: { fetched: { to: done, set: { got: event.payload.result } } } }
  done: { final: true }
actions:
  fetch:
    task: { type: fetch, labels: [van], input: { what: event.payload.what } }
    retry: { attempts: 3, backoff: 1ms, max: 1ms }
    timeouts: { heartbeat: 30s }
    on_success: fetched
"#;

#[tokio::test]
async fn failed_task_is_leased_again_and_completed() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.apply_yaml(ERRAND).await.unwrap();
    client.start("errand").id("e-1").await.unwrap();
    client.send("e-1", "go").payload(json!({"what": "milk"})).await.unwrap();
    let wish = TaskLeaseQuery::of(["fetch"])
        .labels(["van"])
        .max(5)
        .wait(SOON.min(Duration::from_secs(30)))
        .worker("sdk");
    let first = client.lease_tasks(&wish).await.unwrap().remove(0);
    assert_eq!((first.input.clone(), first.attempt), (json!({"what": "milk"}), 1));
    let held = client.heartbeat_task(&first, Some(&json!({"at": "the shop"}))).await.unwrap();
    assert!(!held.cancelled && held.lease_until >= first.lease_until);
    client.fail_task(&first, "closed", AfterTaskFailure::Retry).await.unwrap();
    let again = client.lease_tasks(&wish).await.unwrap().remove(0);
    assert_eq!((again.attempt, again.progress.clone()), (2, json!({"at": "the shop"})));
    let why = client.why(&again.key).await.unwrap();
    assert!(why["reason"].as_str().unwrap().contains("sdk holds it"), "{why}");
    client.complete_task(&again, json!({"litres": 2})).await.unwrap();
    let late = client.complete_task(&first, json!(null)).await.unwrap_err();
    assert!(late.to_string().contains("409") || late.to_string().contains("already"), "{late}");
    let over = client.wait_until_ended("e-1", SOON).await.unwrap();
    assert_eq!(over.context["got"], json!({"litres": 2}));
}

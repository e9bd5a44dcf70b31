//! Tasks through the client: leased from a real engine, kept, completed, refused.

use std::time::Duration;

use millstream_sdk::client::{AfterTaskFailure, TaskFailure, TaskLeaseQuery, TaskReportOutcome};
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
    let failed = client.fail_task(&first, "closed", AfterTaskFailure::Retry).await.unwrap();
    assert_eq!(failed.outcome, TaskReportOutcome::Retried);
    let again = client.lease_tasks(&wish).await.unwrap().remove(0);
    assert_eq!((again.attempt, again.progress.clone()), (2, json!({"at": "the shop"})));
    let why = client.why(&again.key).await.unwrap();
    assert!(why.reason.contains("sdk holds it"), "{why:?}");
    let settled = client.complete_task(&again, json!({"litres": 2})).await.unwrap();
    assert_eq!(settled.outcome, TaskReportOutcome::Completed);
    let late = client.complete_task(&first, json!(null)).await.unwrap_err();
    assert!(late.to_string().contains("409") || late.to_string().contains("already"), "{late}");
    let over = client.wait_until_ended("e-1", SOON).await.unwrap();
    assert_eq!(over.context["got"], json!({"litres": 2}));
}

#[tokio::test]
async fn batch_of_results_has_a_verdict_each() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.apply_yaml(ERRAND).await.unwrap();
    for id in ["e-1", "e-2"] {
        client.start("errand").id(id).event_with("go", json!({"what": "milk"})).await.unwrap();
    }
    let wish = TaskLeaseQuery::of(["fetch"]).labels(["van"]).wait(Duration::from_secs(30)).worker("sdk");
    let (first, second) = (
        client.lease_tasks(&wish).await.unwrap().remove(0),
        client.lease_tasks(&wish).await.unwrap().remove(0),
    );
    client.complete_task(&first, json!(1)).await.unwrap();
    let verdicts = client.complete_tasks([(&first, 2), (&second, 3)]).await.unwrap();
    assert_eq!(verdicts[0].as_ref().unwrap_err().problem().unwrap().status, 409);
    assert_eq!(verdicts[1].as_ref().unwrap().outcome, TaskReportOutcome::Completed);
    let done = client.wait_until_ended(&second.execution_id, SOON).await.unwrap();
    assert_eq!(done.context["got"], json!(3));
}

#[tokio::test]
async fn classified_failure_ends_task() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.apply_yaml(ERRAND).await.unwrap();
    client.start("errand").id("e-1").event_with("go", json!({"what": "milk"})).await.unwrap();
    let wish = TaskLeaseQuery::of(["fetch"]).labels(["van"]).wait(Duration::from_secs(30)).worker("sdk");
    let task = client.lease_tasks(&wish).await.unwrap().remove(0);
    let failure = TaskFailure {
        token: task.token,
        message: "sold out".to_owned(),
        class: Some("sold_out".to_owned()),
        then: Some(AfterTaskFailure::Fail),
        retry_after: None,
    };
    let settled = client.report_task_failure(&task, &failure).await.unwrap();
    assert_eq!(settled.outcome, TaskReportOutcome::Incident);
    let open = client.incidents().open().await.unwrap();
    assert_eq!((open[0].class.as_str(), open[0].execution_id.as_str()), ("sold_out", "e-1"));
}

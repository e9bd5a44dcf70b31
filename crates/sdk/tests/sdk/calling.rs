//! Every call of the API, once, in its successful case.

use std::time::Duration;

use millstream_sdk::client::{
    DependencyStatus, EventStatus, ExecutionStatus, NewEvent, NewExecution, SourceFormat, StoredSource,
};
use serde::Deserialize;
use serde_json::json;

use crate::world::{APPROVAL, COUNTER, SOON, SdkWorld};

#[tokio::test]
async fn definition_is_stored_once() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let again = client.apply_yaml(COUNTER).await.unwrap();
    let stored = client.apply_source(SourceFormat::Yaml, COUNTER).await.unwrap();
    assert_eq!(stored, StoredSource::Present(again.clone()));
    assert_eq!((again.name.as_str(), again.version), ("counter", 1));
    let changed = client.apply_yaml(COUNTER.replace("count: 0 }\n", "count: 1 }\n")).await.unwrap();
    assert_eq!(changed.version, 2);
    let latest = client.definition("counter").await.unwrap();
    assert_eq!((latest.version.version, &latest.definition["context"]), (2, &json!({ "count": 1 })));
    let first = client.definition_version("counter", 1).await.unwrap();
    assert_eq!(first.definition["context"], json!({ "count": 0 }));
    // The same definition as JSON creates no new version.
    assert_eq!(client.apply_json(&latest.definition).await.unwrap().version, 2);
    client.apply_yaml(APPROVAL).await.unwrap();
    let names: Vec<String> =
        client.definitions().await.unwrap().into_iter().map(|version| version.name).collect();
    assert_eq!(names, ["approval", "counter"]);
}

#[tokio::test]
async fn client_drives_execution_to_its_end() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let started = client.start("counter").id("c-1").input(json!({ "count": 40 })).await.unwrap();
    assert_eq!((started.status, started.seq), (ExecutionStatus::Active, 1));

    let sent = client.send("c-1", "add").payload(json!({ "by": 2 })).wait(SOON).await.unwrap();
    assert_eq!(sent.status, EventStatus::Completed);
    let event = sent.event.expect("the event, because the call waited for it");
    assert_eq!((event.seq, event.to_state.as_deref()), (Some(2), Some("counting")));
    assert_eq!(client.event(&event.event_id).await.unwrap(), event);

    #[derive(Debug, PartialEq, Deserialize)]
    struct CounterContext {
        count: i64,
    }
    let now = client.execution("c-1").await.unwrap();
    assert_eq!(now.context_as::<CounterContext>().unwrap(), CounterContext { count: 42 });
    let before = client.execution_at_seq("c-1", 1).await.unwrap();
    assert_eq!(before.context_as::<CounterContext>().unwrap(), CounterContext { count: 40 });
    assert_eq!(client.execution_at("c-1", now.updated_at).await.unwrap().seq, 2);

    client.send("c-1", "stop").wait(SOON).await.unwrap();
    let ended = client.wait_until_ended("c-1", SOON).await.unwrap();
    assert_eq!((ended.status, ended.state.as_str()), (ExecutionStatus::Completed, "stopped"));
    let history: Vec<String> =
        client.history("c-1").await.unwrap().into_iter().map(|transition| transition.name).collect();
    assert_eq!(history, ["millstream.start", "add", "stop"]);
}

#[tokio::test]
async fn start_carries_first_events() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let started =
        client.start("counter").event_with("add", json!({ "by": 7 })).event("stop").wait(SOON).await.unwrap();
    assert_eq!((started.status, &started.context["count"]), (ExecutionStatus::Completed, &json!(7)));
    uuid::Uuid::parse_str(&started.execution_id).expect("a random id");
}

#[tokio::test]
async fn batch_calls_return_a_result_each() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let starts = (0..3).map(|n| NewExecution::of("counter").id(format!("m-{n}")));
    let verdicts = client.start_many(starts.chain([NewExecution::of("nothing")])).await.unwrap();
    let told: Vec<_> = verdicts.iter().map(|verdict| verdict.as_ref().map(|e| e.seq).ok()).collect();
    assert_eq!(told, [Some(1), Some(1), Some(1), None]);
    assert_eq!(verdicts[3].as_ref().unwrap_err().problem().unwrap().word(), "not-found");

    let add = |id: &str| NewEvent::to(id, "add").payload(json!({ "by": 1 }));
    let events = [add("m-0").key("one"), add("m-0").key("one"), add("m-1"), NewEvent::to("m-2", "nothing")];
    let verdicts = client.send_many(events).await.unwrap();
    let ids: Vec<_> = verdicts.iter().map(|verdict| verdict.as_ref().ok().map(|a| &a.event_id)).collect();
    assert_eq!(ids[0], ids[1], "the same key is the same event");
    assert_ne!(ids[1], ids[2]);
    assert_eq!(verdicts[3].as_ref().unwrap_err().problem().unwrap().word(), "unknown-event");
    assert!(client.send_many([]).await.unwrap().is_empty());
}

#[tokio::test]
async fn client_cancels_execution_with_reason() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.apply_yaml(APPROVAL).await.unwrap();
    client.start("approval").id("a-1").await.unwrap();
    let timers = client.timers("a-1").await.unwrap();
    assert_eq!(timers[0].send, "lapse");
    client.cancel("a-1").reason("not needed").wait(SOON).await.unwrap();
    let ended = client.execution("a-1").await.unwrap();
    assert_eq!(ended.status, ExecutionStatus::Cancelled);
    assert!(ended.reason.unwrap_or_default().contains("not needed"));
    assert!(client.timers("a-1").await.unwrap().is_empty());
}

#[tokio::test]
async fn client_lists_actions_of_execution() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.apply_yaml(APPROVAL).await.unwrap();
    client.start("approval").id("a-2").input(json!({ "needed": 1 })).await.unwrap();
    client.send("a-2", "approve").payload(json!({ "who": "ada" })).wait(SOON).await.unwrap();
    let actions = client.actions("a-2").await.unwrap();
    assert_eq!((actions.len(), actions[0].action.as_str()), (1, "announce"));
    assert_eq!(actions[0].status, millstream_sdk::client::ActionStatus::Succeeded);
}

#[tokio::test]
async fn client_lists_live_workers() {
    let SdkWorld { client, engine, .. } = SdkWorld::new().await;
    assert_eq!(client.health().await.unwrap().status, "ok");
    assert_eq!(client.ready().await.unwrap().store, DependencyStatus::Up);
    let workers = millstream_testkit::eventually(SOON, || async {
        let workers = client.workers().await.unwrap();
        if workers.is_empty() { Err("no worker yet") } else { Ok(workers) }
    });
    assert!(workers.await[0].in_flight >= 0);
    engine.stop().await.unwrap();
}

#[tokio::test]
async fn client_wait_times_out() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.start("counter").id("c-2").await.unwrap();
    let error = client.wait_until_ended("c-2", Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, millstream_sdk::ClientError::TimedOut(_)), "{error}");
    let ended = tokio::join!(client.wait_until_ended("c-2", SOON), client.send("c-2", "stop").into_future());
    assert_eq!(ended.0.unwrap().status, ExecutionStatus::Completed);
}

//! Incidents and signals: round trips to a real engine, and the exact requests.

use std::time::Duration;

use millstream_sdk::client::{
    EventStatus, ExecutionStatus, GroupChoice, GroupDecision, IncidentResolution, IncidentStatus,
    SignalStatus,
};
use millstream_testkit::eventually;
use serde_json::json;

use crate::stub::StubServer;
use crate::world::{SOON, SdkWorld, persistent};

/// Fails permanently at once: the port is closed and there is one attempt.
const DOOMED: &str = r#"
name: doomed
initial: open
states:
  open: { on: { go: { to: going, do: [call] } } }
  going: { on: { called: { to: done } } }
  done: { final: true }
actions:
  call:
    http: { method: POST, url: "http://127.0.0.1:1/x" }
    retry: { attempts: 1 }
    on_success: called
"#;

const RESOLVED: &str = r#"{"incident_id":"i-1","execution_id":"x","resolution":"retry","key":"k"}"#;

#[tokio::test]
async fn incident_is_listed_and_resolved() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    client.apply_yaml(DOOMED).await.unwrap();
    for id in ["d-1", "d-2", "d-3"] {
        client.start("doomed").id(id).await.unwrap();
        client.send(id, "go").wait(SOON).await.unwrap();
    }
    let open = client.incidents().open().definition("doomed").page_size(2).await.unwrap();
    let [third, second, first] = open.as_slice() else { panic!("{open:?}") };
    assert_eq!((first.execution_id.as_str(), first.action.as_deref()), ("d-1", Some("call")));
    let groups = client.incident_groups().await.unwrap();
    assert_eq!((groups.len(), groups[0].count, &groups[0].sample), (1, 3, third));
    assert_eq!(client.largest_incident_groups(1).await.unwrap(), groups);
    assert_eq!(client.incidents().filter("status", "open").await.unwrap(), open);

    let mut input = client.incident(&first.incident_id).await.unwrap().input.unwrap();
    input["http"]["url"] = json!("http://127.0.0.1:1/y");
    let retried = client.retry_incident_with_input(&first.incident_id, &input, Some("moved")).await.unwrap();
    assert_eq!(retried.resolution, IncidentResolution::RetryWithInput);
    assert!(retried.key.unwrap().ends_with("/call~1"));
    let decided = client.incident(&first.incident_id).await.unwrap();
    assert!(!decided.incident.is_open());
    assert_eq!(decided.incident.status, IncidentStatus::Resolved);
    assert_eq!(decided.incident.resolved.unwrap().reason.as_deref(), Some("moved"));
    let error = client.retry_incident(&first.incident_id, None).await.unwrap_err();
    assert_eq!(error.problem().map(|problem| problem.status), Some(409));
    // It fails again, which opens another incident.
    eventually(SOON, || async {
        let again = client.incidents().open().execution("d-1").await.unwrap();
        if again.len() == 1 { Ok(()) } else { Err(again) }
    })
    .await;

    client.skip_incident(&second.incident_id, &json!({"ok": true}), None).await.unwrap();
    let done = client.wait_until_ended("d-2", SOON).await.unwrap();
    assert_eq!(done.status, ExecutionStatus::Completed);
    client.fail_incident(&third.incident_id, Some("hopeless")).await.unwrap();
    let failed = client.wait_until_ended("d-3", SOON).await.unwrap();
    assert_eq!((failed.status, failed.reason.as_deref()), (ExecutionStatus::Failed, Some("hopeless")));
    let ended = client.cancel_incident_group(&first.fingerprint, None).await.unwrap();
    assert_eq!(ended.resolved, 1);
    let cancelled = client.wait_until_ended("d-1", SOON).await.unwrap();
    assert_eq!(cancelled.status, ExecutionStatus::Cancelled);
    assert!(client.incidents().open().await.unwrap().is_empty());
}

#[tokio::test]
async fn signal_reaches_later_execution() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let source = "{name: parcel, initial: a, correlate: context.order, states: {a: {on: {paid: {to: b}}}, b: {final: true}}}";
    client.apply_yaml(source).await.unwrap();
    let kept = client.signal("o-1", "paid").payload(7).wait_for(Duration::from_secs(600)).await.unwrap();
    assert_eq!((kept.status, &kept.execution_id), (SignalStatus::Buffered, &None));
    let waiting = client.signal_status(&kept.signal_id).await.unwrap();
    assert_eq!(waiting.status(), SignalStatus::Buffered);
    assert_eq!(waiting.waiting().unwrap().correlation, "o-1");
    let parcel = client.start("parcel").id("p-1").input(json!({"order": "o-1"})).await.unwrap();
    assert_eq!(parcel.correlation.as_deref(), Some("o-1"));
    client.wait_until_ended("p-1", SOON).await.unwrap();
    let signal = client.signal_status(&kept.signal_id).await.unwrap();
    let delivered = signal.delivered().unwrap();
    assert_eq!((delivered.status, delivered.event_status), (SignalStatus::Delivered, EventStatus::Completed));
    assert_eq!((delivered.execution_id.as_str(), &delivered.event_id), ("p-1", &kept.signal_id));
}

#[tokio::test]
async fn signal_is_repeated_but_decision_is_not() {
    let accepted = r#"{"signal_id":"s-1","status":"delivered","execution_id":"x"}"#;
    let stub = StubServer::answering(&[(503, "{}"), (202, accepted)]).await;
    let client = persistent(stub.address);
    let sent =
        client.signal("o-1", "paid").definition("parcel").wait_for(Duration::from_secs(7200)).await.unwrap();
    assert_eq!((sent.signal_id.as_str(), sent.execution_id.as_deref()), ("s-1", Some("x")));
    let asked = stub.asked();
    assert_eq!(asked.len(), 2);
    let body = r#"{"correlation":"o-1","name":"paid","definition":"parcel","wait_for":"2h"}"#;
    assert_eq!((asked[0].path.as_str(), asked[0].body.as_str()), ("/v1/signals", body));
    assert_eq!(asked[0].header("idempotency-key"), asked[1].header("idempotency-key"));

    let stub = StubServer::answering(&[(503, "{}"), (202, RESOLVED)]).await;
    persistent(stub.address).skip_incident("i-1", &(), Some("enough")).await.unwrap_err();
    assert_eq!(stub.asked().len(), 1);
    assert_eq!(stub.asked()[0].body, r#"{"result":null,"reason":"enough"}"#);
    let group = r#"{"resolved":3,"remaining":0}"#;
    let stub = StubServer::answering(&[(429, "{}"), (202, group)]).await;
    let resolved = persistent(stub.address).retry_incident_group("00ff", None).await.unwrap();
    assert_eq!((resolved.resolved, resolved.remaining), (3, 0));
    assert_eq!(stub.asked()[1].path, "/v1/incidents/groups/00ff/retry");
    let stub = StubServer::answering(&[(202, group)]).await;
    let decision = GroupDecision { reason: None, limit: Some(3) };
    persistent(stub.address).resolve_incident_group("00ff", GroupChoice::Fail, &decision).await.unwrap();
    let asked = stub.asked();
    assert_eq!(
        (asked[0].path.as_str(), asked[0].body.as_str()),
        ("/v1/incidents/groups/00ff/fail", r#"{"limit":3}"#)
    );
}

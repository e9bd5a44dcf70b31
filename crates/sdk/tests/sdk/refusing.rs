//! Refused calls return the server's problem document; invalid requests fail before they are sent.

use millstream_sdk::client::ClientRetry;
use millstream_sdk::{Client, ClientError};
use serde_json::json;

use crate::world::SdkWorld;

#[tokio::test]
async fn invalid_definition_returns_every_problem() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    let source =
        "name: x\ninitial: a\nstates: { a: { on: { go: { to: b } } }, c: { on: { go: { to: d } } } }\n";
    let error = client.apply_yaml(source).await.unwrap_err();
    let problem = error.problem().expect("a document");
    assert_eq!((problem.status, problem.word()), (422, "invalid"));
    let paths: Vec<_> = problem.problems.iter().map(|fault| fault.path.as_str()).collect();
    assert!(paths.contains(&"states.a.on.go.to") && paths.contains(&"states.c.on.go.to"), "{paths:?}");
    assert!(problem.instance.is_some(), "the request has an id");
}

#[tokio::test]
async fn client_distinguishes_refusals() {
    let SdkWorld { client, .. } = &SdkWorld::new().await;
    assert!(client.execution("missing/at all").await.unwrap_err().is_not_found());
    assert!(client.definition("nothing").await.unwrap_err().is_not_found());
    client.start("counter").id("r-1").input(json!({ "count": 1 })).await.unwrap();
    let other = client.start("counter").id("r-1").input(json!({ "count": 2 })).await.unwrap_err();
    assert!(other.is_conflict(), "{other}");
    let unknown = client.send("r-1", "fly").await.unwrap_err();
    assert_eq!(unknown.problem().unwrap().word(), "unknown-event");
    client.send("r-1", "add").payload(json!({ "by": 1 })).key("k").await.unwrap();
    let reused = client.send("r-1", "add").payload(json!({ "by": 2 })).key("k").await.unwrap_err();
    assert_eq!(reused.problem().unwrap().word(), "idempotency-key-reused");
    let event = client.events().execution("r-1").await.unwrap().pop().unwrap();
    assert!(client.retry_event(&event.event_id, Some("why not")).await.unwrap_err().is_conflict());
}

#[tokio::test]
async fn missing_server_is_unreachable() {
    let client = Client::builder("http://127.0.0.1:1").retry(ClientRetry::never()).build().unwrap();
    let error = client.health().await.unwrap_err();
    assert!(matches!(&error, ClientError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[test]
fn invalid_server_address_is_refused() {
    for address in ["", "localhost:7400", "ftp://a.example"] {
        assert!(matches!(Client::new(address), Err(ClientError::InvalidSetting { .. })), "{address:?}");
    }
}

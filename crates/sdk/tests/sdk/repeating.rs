//! Calls are retried where that is safe, as the same request.

use std::time::Duration;

use millstream_sdk::client::ClientRetry;
use millstream_sdk::{Client, ClientError};
use millstream_testkit::proxy::NetworkWeather;
use millstream_testkit::{TestProxy, eventually};
use serde_json::json;

use crate::stub::StubServer;
use crate::world::{SOON, SdkWorld, persistent};

const ACCEPTED: &str = r#"{"event_id":"e-1","execution_id":"x","status":"pending"}"#;

#[tokio::test]
async fn transient_refusal_is_retried_with_key() {
    let stub = StubServer::answering(&[(429, "{}"), (503, "{}"), (202, ACCEPTED)]).await;
    let sent = persistent(stub.address).send("x", "pay").payload(7).await.unwrap();
    assert_eq!(sent.event_id, "e-1");
    let asked = stub.asked();
    assert_eq!(asked.len(), 3);
    let key = asked[0].header("idempotency-key").to_owned();
    assert!(!key.is_empty());
    for ask in &asked {
        assert_eq!(
            (ask.header("idempotency-key"), ask.body.as_str()),
            (key.as_str(), r#"{"name":"pay","payload":7}"#)
        );
    }
    let stub = StubServer::answering(&[(202, ACCEPTED)]).await;
    persistent(stub.address).send("x", "pay").await.unwrap();
    assert_ne!(stub.asked()[0].header("idempotency-key"), key, "another call has another key");
}

#[tokio::test]
async fn retried_start_keeps_random_id() {
    let execution = r#"{"execution_id":"x","definition":"d","version":1,"state":"s","status":"active","context":{},
        "seq":1,"created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.000Z"}"#;
    let stub = StubServer::answering(&[(503, "{}"), (201, execution)]).await;
    persistent(stub.address).start("order").await.unwrap();
    let asked = stub.asked();
    assert!(asked[0].body.contains("execution_id"), "{}", asked[0].body);
    assert_eq!(asked[0].body, asked[1].body);
}

#[tokio::test]
async fn non_idempotent_call_is_not_retried() {
    let stub = StubServer::answering(&[(503, "{}"), (202, ACCEPTED)]).await;
    let error = persistent(stub.address).retry_event("e-1", None).await.unwrap_err();
    assert_eq!(error.problem().map(|problem| problem.status), Some(503));
    assert_eq!(stub.asked().len(), 1);
    let stub = StubServer::answering(&[(429, "{}"), (202, ACCEPTED)]).await;
    persistent(stub.address).retry_event("e-1", None).await.unwrap();
    assert_eq!(stub.asked()[0].path, "/v1/events/e-1/retry");
}

#[tokio::test]
async fn permanent_refusal_is_not_retried() {
    let stub = StubServer::answering(&[(422, "{}"), (202, ACCEPTED)]).await;
    assert!(persistent(stub.address).send("x", "pay").await.is_err());
    assert_eq!(stub.asked().len(), 1);
    let stub = StubServer::answering(&[(503, "{}"); 5]).await;
    let twice = Client::builder(format!("http://{}", stub.address))
        .retry(ClientRetry { attempts: 2, ..ClientRetry::default() })
        .build()
        .unwrap();
    assert!(matches!(twice.health().await, Err(ClientError::Refused(_))));
    assert_eq!(stub.asked().len(), 2);
}

#[tokio::test]
async fn api_key_is_sent_with_every_call() {
    let stub = StubServer::answering(&[(200, r#"{"status":"ok","version":"1"}"#)]).await;
    let client = Client::builder(format!("http://{}/", stub.address)).key("ms_secret").build().unwrap();
    client.health().await.unwrap();
    assert_eq!(stub.asked()[0].header("authorization"), "Bearer ms_secret");
}

#[tokio::test]
async fn unanswered_event_is_applied_once() {
    let world = SdkWorld::new().await;
    let proxy = TestProxy::forward_to(world.engine.address().unwrap()).await;
    let client = persistent(proxy.address());
    world.client.start("counter").id("once").await.unwrap();
    for seq in 2..=6 {
        let resets = proxy.totals_so_far().reset;
        // Slow enough that the answer is still in flight when the event is known to be applied.
        proxy.set_weather(NetworkWeather::Slow(Duration::from_millis(100)));
        let cut = async {
            eventually(SOON, || async {
                let seen = world.client.execution("once").await.unwrap().seq;
                if seen == seq { Ok(()) } else { Err(seen) }
            })
            .await;
            proxy.set_weather(NetworkWeather::Cut);
            eventually(SOON, || async {
                if proxy.totals_so_far().reset > resets { Ok(()) } else { Err(proxy.totals_so_far()) }
            })
            .await;
            proxy.set_weather(NetworkWeather::Clear);
        };
        let (sent, ()) = tokio::join!(client.send("once", "add").into_future(), cut);
        sent.unwrap();
    }
    world.client.send("once", "stop").wait(SOON).await.unwrap();
    let ended = world.client.execution("once").await.unwrap();
    assert_eq!((&ended.context["count"], ended.seq), (&json!(5), 7));
}

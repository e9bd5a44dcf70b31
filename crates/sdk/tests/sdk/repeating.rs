//! Calls are retried where that is safe, as the same request.

use std::time::Duration;

use millstream_sdk::client::Retry;
use millstream_sdk::{Client, ClientError};
use millstream_testkit::proxy::Weather;
use millstream_testkit::{Proxy, eventually};
use serde_json::json;

use crate::stub::Stub;
use crate::world::{SOON, World, persistent};

const ACCEPTED: &str = r#"{"event_id":"e-1","execution_id":"x","status":"pending"}"#;

#[tokio::test]
async fn a_refusal_for_now_is_repeated_under_the_same_key() {
    let stub = Stub::answering(&[(429, "{}"), (503, "{}"), (202, ACCEPTED)]).await;
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
    let stub = Stub::answering(&[(202, ACCEPTED)]).await;
    persistent(stub.address).send("x", "pay").await.unwrap();
    assert_ne!(stub.asked()[0].header("idempotency-key"), key, "another call has another key");
}

#[tokio::test]
async fn a_start_keeps_the_id_that_it_was_given_by_chance() {
    let execution = r#"{"execution_id":"x","definition":"d","version":1,"state":"s","status":"active","context":{},
        "seq":1,"created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.000Z"}"#;
    let stub = Stub::answering(&[(503, "{}"), (201, execution)]).await;
    persistent(stub.address).start("order").await.unwrap();
    let asked = stub.asked();
    assert!(asked[0].body.contains("execution_id"), "{}", asked[0].body);
    assert_eq!(asked[0].body, asked[1].body);
}

#[tokio::test]
async fn what_might_be_done_twice_is_not_repeated() {
    let stub = Stub::answering(&[(503, "{}"), (202, ACCEPTED)]).await;
    let error = persistent(stub.address).retry_event("e-1", None).await.unwrap_err();
    assert_eq!(error.problem().map(|problem| problem.status), Some(503));
    assert_eq!(stub.asked().len(), 1);
    let stub = Stub::answering(&[(429, "{}"), (202, ACCEPTED)]).await;
    persistent(stub.address).retry_event("e-1", None).await.unwrap();
    assert_eq!(stub.asked()[0].path, "/v1/events/e-1/retry");
}

#[tokio::test]
async fn a_refusal_for_good_is_not_repeated_and_attempts_end() {
    let stub = Stub::answering(&[(422, "{}"), (202, ACCEPTED)]).await;
    assert!(persistent(stub.address).send("x", "pay").await.is_err());
    assert_eq!(stub.asked().len(), 1);
    let stub = Stub::answering(&[(503, "{}"); 5]).await;
    let twice = Client::builder(format!("http://{}", stub.address))
        .retry(Retry { attempts: 2, ..Retry::default() })
        .build()
        .unwrap();
    assert!(matches!(twice.health().await, Err(ClientError::Refused(_))));
    assert_eq!(stub.asked().len(), 2);
}

#[tokio::test]
async fn the_key_goes_with_every_call() {
    let stub = Stub::answering(&[(200, r#"{"status":"ok","version":"1"}"#)]).await;
    let client = Client::builder(format!("http://{}/", stub.address)).key("ms_secret").build().unwrap();
    client.health().await.unwrap();
    assert_eq!(stub.asked()[0].header("authorization"), "Bearer ms_secret");
}

#[tokio::test]
async fn an_event_whose_answer_is_lost_is_sent_again_and_applied_once() {
    let world = World::new().await;
    let proxy = Proxy::to(world.engine.address().unwrap()).await;
    let client = persistent(proxy.address());
    world.client.start("counter").id("once").await.unwrap();
    for seq in 2..=6 {
        let resets = proxy.done().reset;
        // Slow enough that the answer is still in flight when the event is known to be applied.
        proxy.set(Weather::Slow(Duration::from_millis(100)));
        let cut = async {
            eventually(SOON, || async {
                let seen = world.client.execution("once").await.unwrap().seq;
                if seen == seq { Ok(()) } else { Err(seen) }
            })
            .await;
            proxy.set(Weather::Cut);
            eventually(SOON, || async {
                if proxy.done().reset > resets { Ok(()) } else { Err(proxy.done()) }
            })
            .await;
            proxy.set(Weather::Clear);
        };
        let (sent, ()) = tokio::join!(client.send("once", "add").into_future(), cut);
        sent.unwrap();
    }
    world.client.send("once", "stop").wait(SOON).await.unwrap();
    let ended = world.client.execution("once").await.unwrap();
    assert_eq!((&ended.context["count"], ended.seq), (&json!(5), 7));
}

//! Outbound webhooks: their format, their signature, and the permitted addresses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use millstream_core::id::{Name, TenantId};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::clock::StoreClock;
use millstream_testkit::Sink as Target;
use millstream_testkit::sink::{Answer, Call};
use millstream_worker::outbound::{CloudEvent, Form, Refusal, Sink, Taste, Webhook, WebhookSink};
use millstream_worker::{HttpOptions, Secrets};
use sha2::Sha256;

/// Replaceable secrets.
#[derive(Debug, Default)]
struct Drawer(Mutex<BTreeMap<String, String>>);

#[async_trait::async_trait]
impl Secrets for Drawer {
    async fn get(&self, tenant: &TenantId, name: &Name) -> Option<String> {
        assert_eq!(*tenant, TenantId::default_tenant());
        self.0.lock().unwrap().get(name.as_str()).cloned()
    }
}

impl Drawer {
    fn put(&self, name: &str, secret: &str) {
        self.0.lock().unwrap().insert(name.to_owned(), secret.to_owned());
    }
}

fn event(index: usize) -> CloudEvent {
    CloudEvent {
        specversion: "1.0",
        id: format!("7.{index}"),
        source: "/millstream/default".to_owned(),
        kind: "millstream.graph.node.completed".to_owned(),
        subject: "r-1".to_owned(),
        time: Timestamp::from_millis(0),
        sequence: format!("{index:06}"),
        datacontenttype: "application/json",
        data: RawJson::trusted(r#"{"node":"a"}"#),
    }
}

fn sink_on(
    url: String,
    form: Form,
    secrets: &[&str],
    drawer: &Arc<Drawer>,
    http: &HttpOptions,
) -> WebhookSink {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let webhook = Webhook {
        name: Name::parse("crm").unwrap(),
        url,
        secrets: secrets.iter().map(|name| Name::parse(name).unwrap()).collect(),
        form,
        timeout: Duration::from_secs(5),
        source: "/millstream".to_owned(),
        taste: Taste::default(),
    };
    let now = Timestamp::EPOCH.plus(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap());
    WebhookSink::new(webhook, http, drawer.clone(), Arc::new(StoreClock::starting_at(now))).unwrap()
}

fn loopback() -> HttpOptions {
    HttpOptions { allow: vec!["127.0.0.1/32".parse().unwrap()], ..HttpOptions::default() }
}

/// Whether one of the signatures of a call was made with this secret, as a receiver verifies it.
fn is_signed_with(call: &Call, key: &[u8]) -> bool {
    let (id, time) = (call.header("webhook-id").unwrap(), call.header("webhook-timestamp").unwrap());
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(format!("{id}.{time}.{}", call.body).as_bytes());
    let wanted = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    call.header("webhook-signature").unwrap().split(' ').any(|signature| signature == wanted)
}

#[tokio::test]
async fn a_batch_is_one_signed_request_and_the_same_message_when_it_is_sent_again() {
    let (target, drawer) = (Target::start().await, Arc::new(Drawer::default()));
    drawer.put("key", &format!("whsec_{}", STANDARD.encode(b"twenty-four bytes of key")));
    let sink = sink_on(target.url("/hook"), Form::Batch, &["key"], &drawer, &loopback());
    let events = [event(0), event(1), event(2)];
    sink.send(&events).await.unwrap();
    sink.send(&events).await.unwrap();
    sink.send(&events[..2]).await.unwrap();
    let calls = target.calls_to("/hook");
    assert_eq!(calls[0].header("content-type"), Some("application/cloudevents-batch+json"));
    assert_eq!(calls[0].json(), serde_json::to_value(&events).unwrap());
    assert!(calls.iter().all(|call| call.method == "POST"));
    assert!(calls.iter().all(|call| is_signed_with(call, b"twenty-four bytes of key")));
    assert!(!is_signed_with(&calls[0], b"another key"));
    let ids: Vec<_> = calls.iter().map(|call| call.header("webhook-id").unwrap()).collect();
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
    assert_eq!(calls[0].header("idempotency-key"), None, "that is for actions");
}

#[tokio::test]
async fn a_single_event_is_a_request_of_its_own() {
    let (target, drawer) = (Target::start().await, Arc::new(Drawer::default()));
    drawer.put("key", "plain text");
    let sink = sink_on(target.url("/hook"), Form::Single, &["key"], &drawer, &loopback());
    assert_eq!(sink.load().events, 1);
    sink.send(&[event(4)]).await.unwrap();
    let call = target.calls_to("/hook").remove(0);
    assert_eq!(call.header("content-type"), Some("application/cloudevents+json"));
    assert_eq!(call.json()["id"], "7.4");
    assert!(is_signed_with(&call, b"plain text"));
}

#[tokio::test]
async fn secrets_are_replaced_without_a_request_that_a_receiver_cannot_verify() {
    let (target, drawer) = (Target::start().await, Arc::new(Drawer::default()));
    drawer.put("old", "one");
    let only_old = sink_on(target.url("/hook"), Form::Batch, &["old"], &drawer, &loopback());
    let both = sink_on(target.url("/hook"), Form::Batch, &["new", "old"], &drawer, &loopback());
    only_old.send(&[event(0)]).await.unwrap();
    let Err(Refusal::Away { error, .. }) = both.send(&[event(0)]).await else {
        panic!("there is no new one yet")
    };
    assert!(error.contains("\"new\""), "{error}");
    drawer.put("new", "two");
    both.send(&[event(0)]).await.unwrap();
    drawer.put("old", "three");
    only_old.send(&[event(0)]).await.unwrap();
    let signed: Vec<_> = target
        .calls_to("/hook")
        .iter()
        .map(|call| ["one", "two", "three"].map(|key| is_signed_with(call, key.as_bytes())))
        .collect();
    assert_eq!(signed, [[true, false, false], [true, true, false], [false, false, true]]);
}

#[tokio::test]
async fn an_address_that_actions_may_not_reach_is_not_reached_by_webhooks_either() {
    let (target, drawer) = (Target::start().await, Arc::new(Drawer::default()));
    drawer.put("key", "k");
    for url in [target.url("/hook"), target.url("/hook").replace("127.0.0.1", "localhost")] {
        let sink = sink_on(url, Form::Batch, &["key"], &drawer, &HttpOptions::default());
        let Err(Refusal::Away { error, .. }) = sink.send(&[event(0)]).await else { panic!("it was reached") };
        assert!(error.contains("forbidden"), "{error}");
    }
    assert!(target.calls().is_empty());
}

#[tokio::test]
async fn an_answer_is_about_the_events_and_no_answer_about_the_sink() {
    let (target, drawer) = (Target::start().await, Arc::new(Drawer::default()));
    drawer.put("key", "k");
    let ask = |path: &str| {
        let sink = sink_on(target.url(path), Form::Batch, &["key"], &drawer, &loopback());
        async move { sink.send(&[event(0)]).await }
    };
    target.script("/bad", [Answer::Text(400, "what is this".to_owned())]);
    target.script("/broken", [Answer::Status(500)]);
    target.script("/full", [Answer::Header(429, "retry-after", "7".to_owned())]);
    target.script("/elsewhere", [Answer::Header(302, "location", target.url("/there"))]);
    target.script("/long", [Answer::Large(200, 1024 * 1024)]);
    for (path, what) in [("/bad", "what is this"), ("/broken", "500"), ("/elsewhere", "302")] {
        let Err(Refusal::Refused { error }) = ask(path).await else { panic!("{path}") };
        assert!(error.contains(what), "{error}");
    }
    let full = ask("/full").await.unwrap_err();
    assert!(
        matches!(&full, Refusal::Away { retry_after: Some(wait), .. } if wait.as_secs() == 7),
        "{full:?}"
    );
    assert_eq!(ask("/long").await, Ok(()), "the rest of the answer is ignored");
    assert!(target.calls_to("/there").is_empty(), "a signed request is not redirected");
    let unreachable = sink_on("http://127.0.0.1:1/".to_owned(), Form::Batch, &["key"], &drawer, &loopback());
    assert!(matches!(unreachable.send(&[event(0)]).await, Err(Refusal::Away { .. })));
}

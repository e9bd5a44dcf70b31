//! Outbound webhooks: their format, their signature, and the permitted addresses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use millstream_model::id::{Name, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::clock::StoreClock;
use millstream_testkit::TestSink as Target;
use millstream_testkit::sink::{SinkAnswer, SinkRequest};
use millstream_worker::outbound::{
    CloudEvent, Sink, SinkFilter, SinkRefusal, WebhookForm, WebhookSettings, WebhookSink,
};
use millstream_worker::{HttpOptions, SecretSource};
use sha2::Sha256;

/// Replaceable secrets.
#[derive(Debug, Default)]
struct SecretDrawer(Mutex<BTreeMap<String, String>>);

#[async_trait::async_trait]
impl SecretSource for SecretDrawer {
    async fn get(&self, tenant: &TenantId, name: &Name) -> Option<String> {
        assert_eq!(*tenant, TenantId::default_tenant());
        self.0.lock().unwrap().get(name.as_str()).cloned()
    }
}

impl SecretDrawer {
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
        data: RawJson::from_trusted_text(r#"{"node":"a"}"#),
    }
}

fn sink_on(
    url: String,
    form: WebhookForm,
    secrets: &[&str],
    drawer: &Arc<SecretDrawer>,
    http: &HttpOptions,
) -> WebhookSink {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let webhook = WebhookSettings {
        name: Name::parse("crm").unwrap(),
        url,
        secrets: secrets.iter().map(|name| Name::parse(name).unwrap()).collect(),
        form,
        timeout: Duration::from_secs(5),
        source: "/millstream".to_owned(),
        taste: SinkFilter::default(),
    };
    let now = Timestamp::EPOCH.plus(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap());
    WebhookSink::new(webhook, http, drawer.clone(), Arc::new(StoreClock::starting_at(now))).unwrap()
}

fn loopback() -> HttpOptions {
    HttpOptions { allow: vec!["127.0.0.1/32".parse().unwrap()], ..HttpOptions::default() }
}

/// Whether one of the signatures of a call was made with this secret, as a receiver verifies it.
fn is_signed_with(call: &SinkRequest, key: &[u8]) -> bool {
    let (id, time) = (call.header("webhook-id").unwrap(), call.header("webhook-timestamp").unwrap());
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(format!("{id}.{time}.{}", call.body).as_bytes());
    let wanted = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    call.header("webhook-signature").unwrap().split(' ').any(|signature| signature == wanted)
}

#[tokio::test]
async fn resent_webhook_batch_keeps_message_id() {
    let (target, drawer) = (Target::start().await, Arc::new(SecretDrawer::default()));
    drawer.put("key", &format!("whsec_{}", STANDARD.encode(b"twenty-four bytes of key")));
    let sink = sink_on(target.url("/hook"), WebhookForm::Batch, &["key"], &drawer, &loopback());
    let events = [event(0), event(1), event(2)];
    sink.send_events(&events).await.unwrap();
    sink.send_events(&events).await.unwrap();
    sink.send_events(&events[..2]).await.unwrap();
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
async fn single_form_sends_one_event_per_request() {
    let (target, drawer) = (Target::start().await, Arc::new(SecretDrawer::default()));
    drawer.put("key", "plain text");
    let sink = sink_on(target.url("/hook"), WebhookForm::Single, &["key"], &drawer, &loopback());
    assert_eq!(sink.load_limits().events, 1);
    sink.send_events(&[event(4)]).await.unwrap();
    let call = target.calls_to("/hook").remove(0);
    assert_eq!(call.header("content-type"), Some("application/cloudevents+json"));
    assert_eq!(call.json()["id"], "7.4");
    assert!(is_signed_with(&call, b"plain text"));
}

#[tokio::test]
async fn rotated_webhook_secret_stays_verifiable() {
    let (target, drawer) = (Target::start().await, Arc::new(SecretDrawer::default()));
    drawer.put("old", "one");
    let only_old = sink_on(target.url("/hook"), WebhookForm::Batch, &["old"], &drawer, &loopback());
    let both = sink_on(target.url("/hook"), WebhookForm::Batch, &["new", "old"], &drawer, &loopback());
    only_old.send_events(&[event(0)]).await.unwrap();
    let Err(SinkRefusal::Away { error, .. }) = both.send_events(&[event(0)]).await else {
        panic!("there is no new one yet")
    };
    assert!(error.contains("\"new\""), "{error}");
    drawer.put("new", "two");
    both.send_events(&[event(0)]).await.unwrap();
    drawer.put("old", "three");
    only_old.send_events(&[event(0)]).await.unwrap();
    let signed: Vec<_> = target
        .calls_to("/hook")
        .iter()
        .map(|call| ["one", "two", "three"].map(|key| is_signed_with(call, key.as_bytes())))
        .collect();
    assert_eq!(signed, [[true, false, false], [true, true, false], [false, false, true]]);
}

#[tokio::test]
async fn webhook_refuses_forbidden_address() {
    let (target, drawer) = (Target::start().await, Arc::new(SecretDrawer::default()));
    drawer.put("key", "k");
    for url in [target.url("/hook"), target.url("/hook").replace("127.0.0.1", "localhost")] {
        let sink = sink_on(url, WebhookForm::Batch, &["key"], &drawer, &HttpOptions::default());
        let Err(SinkRefusal::Away { error, .. }) = sink.send_events(&[event(0)]).await else {
            panic!("it was reached")
        };
        assert!(error.contains("forbidden"), "{error}");
    }
    assert!(target.recorded_calls().is_empty());
}

#[tokio::test]
async fn webhook_answer_refuses_events_not_sink() {
    let (target, drawer) = (Target::start().await, Arc::new(SecretDrawer::default()));
    drawer.put("key", "k");
    let ask = |path: &str| {
        let sink = sink_on(target.url(path), WebhookForm::Batch, &["key"], &drawer, &loopback());
        async move { sink.send_events(&[event(0)]).await }
    };
    target.set_answers("/bad", [SinkAnswer::Text(400, "what is this".to_owned())]);
    target.set_answers("/broken", [SinkAnswer::Status(500)]);
    target.set_answers("/full", [SinkAnswer::Header(429, "retry-after", "7".to_owned())]);
    target.set_answers("/elsewhere", [SinkAnswer::Header(302, "location", target.url("/there"))]);
    target.set_answers("/long", [SinkAnswer::Large(200, 1024 * 1024)]);
    for (path, what) in [("/bad", "what is this"), ("/broken", "500"), ("/elsewhere", "302")] {
        let Err(SinkRefusal::Refused { error }) = ask(path).await else { panic!("{path}") };
        assert!(error.contains(what), "{error}");
    }
    let full = ask("/full").await.unwrap_err();
    assert!(
        matches!(&full, SinkRefusal::Away { retry_after: Some(wait), .. } if wait.as_secs() == 7),
        "{full:?}"
    );
    assert_eq!(ask("/long").await, Ok(()), "the rest of the answer is ignored");
    assert!(target.calls_to("/there").is_empty(), "a signed request is not redirected");
    let unreachable =
        sink_on("http://127.0.0.1:1/".to_owned(), WebhookForm::Batch, &["key"], &drawer, &loopback());
    assert!(matches!(unreachable.send_events(&[event(0)]).await, Err(SinkRefusal::Away { .. })));
}

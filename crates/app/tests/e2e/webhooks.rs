//! `webhook`: the receiver verifies signature, id and time itself, as Standard Webhooks specify.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use millstream_testkit::sink::{SinkAnswer, SinkRequest};
use millstream_testkit::{FleetMode, TestSink};
use serde_json::json;
use sha2::Sha256;

use crate::definitions::definition_with_sink;
use crate::world::start_with;

both_modes!(webhook_retries_keep_id_and_signature);

const KEY: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const SETTINGS: [(&str, &str); 1] = [("MILLSTREAM_SECRET_HOOK_KEY", KEY)];

const HOOK: &str = r#"
name: hook
initial: a
states:
  a: { on: { go: { to: b, do: [notify] } } }
  b: { on: { notified: { to: z } } }
  z: { final: true }
actions:
  notify:
    webhook: { url: "SINK/hook/${context.n}", type: "order.paid", data: { n: context.n }, secret: hook_key }
    retry: { attempts: 4, backoff: 600ms, jitter: none, max: 600ms }
    on_success: notified
"#;

async fn webhook_retries_keep_id_and_signature(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/hook/1", [SinkAnswer::Status(500), SinkAnswer::Status(429), SinkAnswer::Status(204)]);
    let world = start_with(mode, &SETTINGS).await;
    let api = &world.api;
    api.apply(&definition_with_sink(HOOK, &sink)).await;
    api.start_with_events("hook", "h-1", json!({ "n": 1 }), &["go"]).await;
    api.start_with_events("hook", "h-2", json!({ "n": 2 }), &["go"]).await;
    for id in ["h-1", "h-2"] {
        api.execution_in(id, "completed").await;
    }
    let (retried, other) = (sink.calls_to("/hook/1"), sink.calls_to("/hook/2"));
    assert_eq!((retried.len(), other.len()), (3, 1));
    for call in retried.iter().chain(&other) {
        assert_eq!(expected_signature(KEY, call), call_header(call, "webhook-signature"));
        assert_ne!(expected_signature("whsec_AAAA", call), call_header(call, "webhook-signature"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(now.abs_diff(sent_at(call)) < 60, "{call:?}");
        let body = call.json();
        assert_eq!((&body["type"], call.method.as_str()), (&json!("order.paid"), "POST"), "{body}");
        assert!(body["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{body}");
    }
    assert_eq!(retried[0].json()["data"], json!({ "n": 1 }));
    assert!(retried.iter().all(|call| call.body == retried[0].body), "one message");
    let ids: Vec<_> = retried.iter().map(|call| call_header(call, "webhook-id")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]) && !ids[0].contains('.'), "{ids:?}");
    assert_ne!(call_header(&other[0], "webhook-id"), ids[0]);
    assert!(sent_at(&retried[2]) > sent_at(&retried[0]), "the time is of the attempt");
    assert!(!world.fleet.all_outputs().contains(KEY));
}

pub(crate) fn call_header<'c>(call: &'c SinkRequest, name: &str) -> &'c str {
    call.header(name).unwrap_or_else(|| panic!("no {name} in {call:?}"))
}

fn sent_at(call: &SinkRequest) -> u64 {
    call_header(call, "webhook-timestamp").parse().expect("whole seconds")
}

/// The signature that a receiver computes from the secret and the request.
pub(crate) fn expected_signature(secret: &str, call: &SinkRequest) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("whsec_")).expect("base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
    let (id, time) = (call_header(call, "webhook-id"), call_header(call, "webhook-timestamp"));
    mac.update(format!("{id}.{time}.{}", call.body).as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

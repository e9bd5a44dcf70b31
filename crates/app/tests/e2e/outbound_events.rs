//! Outbound events of runs: over real HTTP, signed, retried after a refusal, with the same ids.

use std::time::Duration;

use millstream_testkit::sink::{SinkAnswer, SinkRequest};
use millstream_testkit::{FleetMode, TestSink, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::webhooks::{call_header, expected_signature};
use crate::world::start_with;

both_modes!(failed_run_is_sent_to_webhooks);

const KEY: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn delivered_events(calls: &[SinkRequest]) -> Vec<Value> {
    calls.iter().flat_map(|call| call.json().as_array().cloned().unwrap()).collect()
}

async fn failed_run_is_sent_to_webhooks(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/moody", [SinkAnswer::Status(500), SinkAnswer::Status(204)]);
    sink.set_answers("/calm", [SinkAnswer::Status(204), SinkAnswer::Status(204), SinkAnswer::Status(204)]);
    sink.set_answers("/items", [SinkAnswer::Status(204)]);
    let hook =
        |name: &str, kind: &str| format!("{name}={} secret=hook_key {kind}", sink.url(&format!("/{name}")));
    let hooks =
        [hook("moody", "type=run.nobody_left"), hook("calm", "type=run.*"), hook("items", "type=item.*")];
    let hooks = hooks.join(",");
    let settings = [("MILLSTREAM_SECRET_HOOK_KEY", KEY), ("MILLSTREAM_OUTBOUND__WEBHOOKS", hooks.as_str())];
    let world = start_with(mode, &settings).await;
    let client = &world.api.client;
    let device = client.request(Method::PUT, "/v1/devices/phone-7").json(&json!({}));
    millstream_testkit::client::send_request(device).await;
    let run = json!({ "run_id": "film-1", "kind": "film", "settings": { "max_reassignments": 0 } });
    client.post("/v1/runs", &run).await.expect_status(201);
    let decline = json!({ "device": "phone-7", "token": 1, "reason": "busy" });
    client.post("/v1/runs/film-1/decline", &decline).await.expect_status(200);
    eventually(Duration::from_secs(60), || async {
        let heard = (sink.calls_to("/moody").len(), sink.calls_to("/calm").len());
        if heard == (2, 1) { Ok(()) } else { Err(heard) }
    })
    .await;
    let (moody, calm) = (sink.calls_to("/moody"), sink.calls_to("/calm"));
    for call in moody.iter().chain(&calm) {
        assert_eq!(expected_signature(KEY, call), call_header(call, "webhook-signature"));
        assert_eq!(call_header(call, "content-type"), "application/cloudevents-batch+json");
    }
    assert_eq!(delivered_events(&moody[..1]), delivered_events(&moody[1..]), "the same again");
    assert_eq!(delivered_events(&moody[..1]), delivered_events(&calm), "the same for all");
    let event = &delivered_events(&calm)[0];
    assert_eq!(
        (&event["type"], &event["subject"]),
        (&json!("millstream.run.nobody_left"), &json!("film-1")),
        "{event}"
    );
    let reason = "no device is left: reassigned 0 times, and then declined (busy)";
    assert_eq!((&event["data"]["kind"], &event["data"]["reason"]), (&json!("film"), &json!(reason)));
    assert!(sink.calls_to("/items").is_empty());
}

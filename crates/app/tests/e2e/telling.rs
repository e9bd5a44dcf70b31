//! Outbound events of runs: over real HTTP, signed, retried after a refusal, with the same ids.

use std::time::Duration;

use millstream_testkit::sink::{Answer, Call};
use millstream_testkit::{Mode, Sink, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::webhooks::{header, signature};
use crate::world::start_with;

both_modes!(a_run_for_which_nobody_is_left_is_told_to_who_wants_to_hear_it);

const KEY: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn events(calls: &[Call]) -> Vec<Value> {
    calls.iter().flat_map(|call| call.json().as_array().cloned().unwrap()).collect()
}

async fn a_run_for_which_nobody_is_left_is_told_to_who_wants_to_hear_it(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/moody", [Answer::Status(500), Answer::Status(204)]);
    sink.script("/calm", [Answer::Status(204), Answer::Status(204), Answer::Status(204)]);
    sink.script("/items", [Answer::Status(204)]);
    let hook =
        |name: &str, kind: &str| format!("{name}={} secret=hook_key {kind}", sink.url(&format!("/{name}")));
    let hooks =
        [hook("moody", "type=run.nobody_left"), hook("calm", "type=run.*"), hook("items", "type=item.*")];
    let hooks = hooks.join(",");
    let settings = [("MILLSTREAM_SECRET_HOOK_KEY", KEY), ("MILLSTREAM_OUTBOUND__WEBHOOKS", hooks.as_str())];
    let world = start_with(mode, &settings).await;
    let client = &world.api.client;
    let device = client.request(Method::PUT, "/v1/devices/phone-7").json(&json!({}));
    millstream_testkit::client::send(device).await;
    let run = json!({ "run_id": "film-1", "kind": "film", "settings": { "max_reassignments": 0 } });
    client.post("/v1/runs", &run).await.expect(201);
    let decline = json!({ "device": "phone-7", "token": 1, "reason": "busy" });
    client.post("/v1/runs/film-1/decline", &decline).await.expect(200);
    eventually(Duration::from_secs(60), || async {
        let heard = (sink.calls_to("/moody").len(), sink.calls_to("/calm").len());
        if heard == (2, 1) { Ok(()) } else { Err(heard) }
    })
    .await;
    let (moody, calm) = (sink.calls_to("/moody"), sink.calls_to("/calm"));
    for call in moody.iter().chain(&calm) {
        assert_eq!(signature(KEY, call), header(call, "webhook-signature"));
        assert_eq!(header(call, "content-type"), "application/cloudevents-batch+json");
    }
    assert_eq!(events(&moody[..1]), events(&moody[1..]), "the same again");
    assert_eq!(events(&moody[..1]), events(&calm), "the same for all");
    let event = &events(&calm)[0];
    assert_eq!(
        (&event["type"], &event["subject"]),
        (&json!("millstream.run.nobody_left"), &json!("film-1")),
        "{event}"
    );
    let reason = "no device is left: reassigned 0 times, and then declined (busy)";
    assert_eq!((&event["data"]["kind"], &event["data"]["reason"]), (&json!("film"), &json!(reason)));
    assert!(sink.calls_to("/items").is_empty());
}

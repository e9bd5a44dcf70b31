//! Signals: delivered, buffered, expired, rejected.

use std::time::Duration;

use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::status::Role;
use millstream_stream::doorbell::Doorbell;
use millstream_testkit::eventually;
use serde_json::{Value, json};

use crate::bench::{Answer, Bench, get, header, key, open_options, post, with_type};
use crate::faulty_backends::FaultyBells;

const PARCEL: &str = r#"
name: parcel
initial: waiting
correlate: context.order
states:
  waiting: { on: { paid: { to: sent }, note: {} } }
  sent: { final: true }
"#;

async fn parcels() -> Bench {
    let bench = Bench::open();
    bench.define(PARCEL).await;
    bench
}

async fn parcel(bench: &Bench, definition: &str, id: &str, order: &str) {
    let body = json!({"definition": definition, "execution_id": id, "input": {"order": order}});
    let started = bench.post("/v1/executions", &body).await;
    assert_eq!(started.status, 201, "{started:?}");
}

async fn keyed(bench: &Bench, idempotency_key: &str, body: &Value) -> Answer {
    bench.send(header(post("/v1/signals", body), "idempotency-key", idempotency_key)).await
}

fn paid(correlation: &str) -> Value {
    json!({"correlation": correlation, "name": "paid", "payload": {"amount": 7}})
}

#[tokio::test]
async fn signal_is_delivered_by_correlation() {
    let bells = std::sync::Arc::new(FaultyBells::default());
    let bench = Bench::with(open_options(), |stores, mut streams| {
        streams.bells = bells.clone();
        (stores, streams)
    });
    bench.define(PARCEL).await;
    parcel(&bench, "parcel", "x-1", "o-1").await;
    parcel(&bench, "parcel", "x-2", "o-2").await;
    bells.rung.lock().unwrap().clear();
    let answer = bench.post("/v1/signals", &paid("o-2")).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let accepted = answer.json();
    assert_eq!((&accepted["status"], &accepted["execution_id"]), (&json!("delivered"), &json!("x-2")));
    let id = accepted["signal_id"].as_str().unwrap();
    assert_eq!(answer.header("location"), format!("/v1/signals/{id}"));
    eventually(Duration::from_secs(10), || async {
        let rung = bells.rung.lock().unwrap().clone();
        if rung.contains(&Doorbell::Mailbox(key("x-2"))) { Ok(()) } else { Err(rung) }
    })
    .await;
    let signal = bench.get(answer.header("location")).await.json();
    assert_eq!((&signal["event_id"], &signal["event_status"]), (&json!(id), &json!("pending")));
    assert_eq!((&signal["status"], &signal["execution_id"]), (&json!("delivered"), &json!("x-2")));
    bench.decide("x-2").await;
    assert_eq!(bench.get(answer.header("location")).await.json()["event_status"], "completed");
    assert_eq!(bench.get("/v1/executions/x-2").await.json()["state"], "sent");
    assert_eq!(bench.get("/v1/executions/x-1").await.json()["state"], "waiting");
}

#[tokio::test]
async fn signal_is_buffered_until_correlated() {
    let bench = parcels().await;
    let answer = bench.post("/v1/signals", &paid("o-1")).await;
    let accepted = answer.json();
    assert_eq!((answer.status.as_u16(), &accepted["status"]), (202, &json!("buffered")));
    assert!(accepted.get("execution_id").is_none());
    let kept = bench.get(answer.header("location")).await.json();
    assert_eq!((&kept["status"], &kept["correlation"]), (&json!("buffered"), &json!("o-1")));
    assert_eq!((&kept["name"], &kept["payload"]), (&json!("paid"), &json!({"amount": 7})));
    let (from, until) = (kept["created_at"].as_str().unwrap(), kept["expires_at"].as_str().unwrap());
    let instant = |text| millstream_model::time::Timestamp::parse(text).unwrap().as_millis();
    let kept_for = instant(until) - instant(from);
    assert!((86_399_000..=86_400_000).contains(&kept_for), "one day by default: {kept_for}");

    parcel(&bench, "parcel", "x-1", "o-1").await;
    let signal = bench.get(answer.header("location")).await.json();
    assert_eq!((&signal["status"], &signal["execution_id"]), (&json!("delivered"), &json!("x-1")));
    bench.decide("x-1").await;
    assert_eq!(bench.get("/v1/executions/x-1").await.json()["status"], "completed");
}

#[tokio::test]
async fn buffered_signal_expires() {
    let bench = parcels().await;
    let mut body = paid("o-1");
    body["wait_for"] = json!("1ms");
    let answer = bench.post("/v1/signals", &body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    eventually(Duration::from_secs(10), || async {
        let signal = bench.get(answer.header("location")).await.json();
        if signal["status"] == "expired" { Ok(()) } else { Err(signal) }
    })
    .await;
    parcel(&bench, "parcel", "x-1", "o-1").await;
    assert_eq!(bench.get(answer.header("location")).await.json()["status"], "expired");
}

#[tokio::test]
async fn repeated_signal_returns_current_status() {
    let bench = parcels().await;
    let first = keyed(&bench, "k-1", &paid("o-1")).await;
    let again = keyed(&bench, "k-1", &paid("o-1")).await;
    assert_eq!((again.status.as_u16(), again.json()), (202, first.json()));
    assert_eq!(again.header("location"), first.header("location"));
    parcel(&bench, "parcel", "x-1", "o-1").await;
    let delivered = keyed(&bench, "k-1", &paid("o-1")).await.json();
    assert_eq!(delivered["signal_id"], first.json()["signal_id"]);
    assert_eq!((&delivered["status"], &delivered["execution_id"]), (&json!("delivered"), &json!("x-1")));
    let events = bench.get("/v1/events?execution_id=x-1&status=pending").await.json();
    assert_eq!(events["items"].as_array().unwrap().len(), 1);

    for other in [
        paid("o-2"),
        json!({"correlation": "o-1", "name": "note", "payload": {"amount": 7}}),
        json!({"correlation": "o-1", "name": "paid", "payload": {"amount": 8}}),
        json!({"correlation": "o-1", "name": "paid", "payload": {"amount": 7}, "definition": "parcel"}),
    ] {
        keyed(&bench, "k-1", &other).await.problem(422, "idempotency-key-reused");
    }
}

#[tokio::test]
async fn signal_repeat_ignores_new_checks() {
    let bench = parcels().await;
    let body = json!({"correlation": "o-1", "name": "unheard-of"});
    let first = keyed(&bench, "k-1", &body).await.json();
    assert_eq!(first["status"], "buffered");
    bench.define("{name: letter, initial: a, states: {a: {on: {go: {}}}}, correlate: context.order}").await;
    parcel(&bench, "letter", "l-1", "o-1").await;
    bench.post("/v1/signals", &body).await.problem(422, "unknown-event");
    let again = keyed(&bench, "k-1", &body).await;
    assert_eq!((again.status.as_u16(), &again.json()["signal_id"]), (202, &first["signal_id"]));
}

#[tokio::test]
async fn unknown_signal_name_has_hint() {
    let bench = parcels().await;
    parcel(&bench, "parcel", "x-1", "o-1").await;
    let body = json!({"correlation": "o-1", "name": "piad"});
    let problem = bench.post("/v1/signals", &body).await.problem(422, "unknown-event");
    assert!(problem["detail"].as_str().unwrap().contains("paid"), "{problem}");
    assert_eq!(problem["problems"][0]["path"], "name");
    let body = json!({"correlation": "absent", "name": "millstream.cancel"});
    bench.post("/v1/signals", &body).await.problem(422, "unknown-event");
}

#[tokio::test]
async fn ambiguous_signal_needs_definition() {
    let bench = parcels().await;
    bench.define(&PARCEL.replace("name: parcel", "name: letter")).await;
    for (definition, id) in [("parcel", "x-1"), ("letter", "l-1"), ("letter", "l-2")] {
        parcel(&bench, definition, id, "o-1").await;
    }
    let problem = bench.post("/v1/signals", &paid("o-1")).await.problem(409, "conflict");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("3 executions") && detail.contains("`definition`"), "{detail}");
    let mut body = paid("o-1");
    body["definition"] = json!("parcel");
    let answer = bench.post("/v1/signals", &body).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["execution_id"]), (202, &json!("x-1")), "{answer:?}");
    body["definition"] = json!("letter");
    let problem = bench.post("/v1/signals", &body).await.problem(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().starts_with("2 executions"), "{problem}");
}

#[tokio::test]
async fn invalid_signals_are_rejected() {
    let bench = parcels().await;
    for (field, value) in [
        ("correlation", json!("")),
        ("correlation", json!("x".repeat(257))),
        ("correlation", json!("a\u{0}b")),
        ("correlation", json!("a\nb")),
        ("correlation", json!(7)),
        ("correlation", Value::Null),
        ("name", json!("")),
        ("name", json!("Paid!")),
        ("definition", json!("No Name")),
        ("wait_for", json!("31d")),
        ("wait_for", json!("0s")),
        ("wait_for", json!("tomorrow")),
        ("wait_for", json!("999999999999d")),
        ("wait_for", json!(60)),
        ("execution_id", json!("x-1")),
    ] {
        let mut body = paid("o-1");
        body[field] = value.clone();
        let problem = bench.post("/v1/signals", &body).await.problem(422, "invalid");
        assert_eq!(problem["problems"][0]["path"], field, "{value}: {problem}");
    }
    let mut large = paid("o-1");
    large["payload"] = json!("x".repeat(262_200));
    bench.post("/v1/signals", &large).await.problem(413, "too-large");
    bench.post("/v1/signals", &json!([paid("o-1")])).await.problem(422, "invalid");
    bench.send(with_type("/v1/signals", "text/plain", "x")).await.problem(415, "unsupported-media-type");
    keyed(&bench, &"k".repeat(256), &paid("o-1")).await.problem(400, "bad-request");
    bench.get("/v1/signals/nonsense").await.problem(404, "not-found");
    bench.get("/v1/signals/00000000-0000-7000-8000-000000000000").await.problem(404, "not-found");
}

#[tokio::test]
async fn signals_isolate_tenants() {
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    bench.key("ms_submit", "default", Role::Submit).await;
    bench.key("ms_read", "default", Role::Read).await;
    bench.key("ms_other", "other", Role::Admin).await;
    let ask = |secret: &str, request| header(request, "authorization", &format!("Bearer {secret}"));
    bench.send(ask("ms_read", post("/v1/signals", &paid("o-1")))).await.problem(403, "forbidden");
    let answer = bench.send(ask("ms_submit", post("/v1/signals", &paid("o-1")))).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let location = answer.header("location");
    assert_eq!(bench.send(ask("ms_submit", get(location))).await.status, 200);
    assert_eq!(bench.send(ask("ms_read", get(location))).await.json()["actor"], "default-submit");
    bench.send(ask("ms_other", get(location))).await.problem(404, "not-found");
}

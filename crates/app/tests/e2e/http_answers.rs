//! `http`: successful answers, their mapping, and targets that answer badly or never.

use std::time::{Duration, Instant};

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::api::{E2eApi, text_field};
use crate::definitions::definition_with_sink;
use crate::world::{FLEET, start_with, start_world};

both_modes!(
    expected_status_is_a_success,
    http_answer_mapping_follows_definition,
    oversized_http_answer_is_refused,
    endless_http_answer_is_cut_off,
    retry_policy_of_http_action_holds,
    schedule_to_close_bounds_all_attempts,
);

/// One call, with its outcome in the context.
const ASK: &str = r"
name: NAME
initial: a
context: {}
states:
  a: { on: { go: { to: b, do: [ask] } } }
  b:
    on:
      answered: { to: z, set: { got: event.payload.result } }
      unanswered: { to: x, set: { why: event.payload.error, attempts: event.payload.attempts } }
  z: { final: true }
  x: { final: failed }
actions:
  ask: { http: { method: GET, url: SINK/NAME, MORE }, on_success: answered, on_failure: unanswered, REST }
";

const ONCE: &str = "retry: { attempts: 1 }";

/// Runs one call to its end and returns the context.
async fn context_after_call(api: &E2eApi, sink: &TestSink, name: &str, more: &str, rest: &str) -> Value {
    let definition =
        definition_with_sink(&ASK.replace("NAME", name).replace("MORE", more).replace("REST", rest), sink);
    api.apply(&definition).await;
    api.start_with_events(name, name, json!({}), &["go"]).await;
    let ended = api.execution_until(name, |seen| seen["status"] != "active").await;
    assert_ne!(ended["status"], "paused", "{ended}");
    ended["context"].clone()
}

async fn expected_status_is_a_success(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    for (name, status, expect, good) in [
        ("gone", 404, "[404, 2xx]", true),
        ("fine", 201, "[404, 2xx]", true),
        ("teapot", 418, "['4xx']", true),
        ("odd", 200, "[404]", false),
        ("busy", 503, "[503]", true),
        ("elsewhere", 302, "[302]", true),
    ] {
        sink.set_answers(&format!("/{name}"), [SinkAnswer::Json(status, json!({ "said": name }))]);
        let context = context_after_call(api, &sink, name, &format!("expect: {expect}"), ONCE).await;
        let seen = if good { &context["got"]["status"] } else { &context["why"]["status"] };
        assert_eq!(seen, status, "{name}: {context}");
        assert_eq!(sink.calls_to(&format!("/{name}")).len(), 1);
    }
}

async fn http_answer_mapping_follows_definition(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    let result = "result: { id: response.body.id, status: response.status, n: 'size(response.body.list)' }";
    sink.set_answers(
        "/mapped",
        [SinkAnswer::Json(200, json!({ "id": "x-1", "list": [1, 2, 3], "noise": "much" }))],
    );
    let context = context_after_call(api, &sink, "mapped", result, ONCE).await;
    assert_eq!(context["got"], json!({ "id": "x-1", "status": 200, "n": 3 }));

    sink.set_answers("/unmapped", [SinkAnswer::Json(200, json!({ "other": 1 }))]);
    let context =
        context_after_call(api, &sink, "unmapped", result, "retry: { attempts: 5, backoff: 10ms }").await;
    assert_eq!(context["why"]["class"], "response", "{context}");
    let message = text_field(&context["why"], "message");
    assert!(message.contains("result") && message.contains("response.body.id"), "{message}");
    assert_eq!(sink.calls_to("/unmapped").len(), 1, "the call was made; a repeat would not help");
}

async fn oversized_http_answer_is_refused(mode: FleetMode) {
    const MUCH: usize = 20 * 1024 * 1024;
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    let retry = "retry: { attempts: 3, backoff: 10ms }";
    sink.set_answers("/short", [SinkAnswer::Json(200, json!("x".repeat(200)))]);
    let context = context_after_call(api, &sink, "short", "max_response: 100", retry).await;
    assert_eq!(context["why"]["class"], "response", "{context}");
    let message = text_field(&context["why"], "message");
    assert!(message.contains("longer than 100 bytes (http.max_response)"), "{message}");

    sink.set_answers("/long", [SinkAnswer::Large(200, MUCH)]);
    let context = context_after_call(api, &sink, "long", "expect: []", retry).await;
    let message = text_field(&context["why"], "message");
    assert!(message.contains("worker.http_max_response"), "{message}");
    assert_eq!(sink.calls_to("/long").len(), 1, "it would be as long again");

    sink.set_answers("/wrong", [SinkAnswer::Large(500, MUCH)]);
    let context = context_after_call(api, &sink, "wrong", "expect: []", retry).await;
    assert_eq!((&context["why"]["status"], &context["attempts"]), (&json!(500), &json!(3)), "{context}");
    assert!(text_field(&context["why"], "message").len() < 1000, "only the beginning is shown");
}

async fn endless_http_answer_is_cut_off(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    sink.set_answers("/mute", [SinkAnswer::Hold(200)]);
    sink.set_answers("/slow", [SinkAnswer::Trickle(200)]);
    sink.set_answers("/sick", [SinkAnswer::Trickle(500)]);
    for name in ["mute", "slow", "sick"] {
        let begun = Instant::now();
        let rest = "timeouts: { start_to_close: 400ms }, retry: { attempts: 2, backoff: 10ms }";
        let context = context_after_call(api, &sink, name, "expect: []", rest).await;
        assert_eq!(
            (&context["why"]["class"], &context["attempts"]),
            (&json!("timeout"), &json!(2)),
            "{context}"
        );
        assert!(begun.elapsed() < Duration::from_secs(10), "{name} took {:?}", begun.elapsed());
        assert_eq!(sink.calls_to(&format!("/{name}")).len(), 2);
    }
}

async fn retry_policy_of_http_action_holds(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    for name in ["once", "excepted", "steady"] {
        sink.set_answers(&format!("/{name}"), [SinkAnswer::Status(503)]);
    }
    let context = context_after_call(api, &sink, "once", "expect: []", ONCE).await;
    assert_eq!((&context["why"]["class"], &context["attempts"]), (&json!("status"), &json!(1)), "{context}");

    let except = "retry: { attempts: 9, backoff: 10ms, except: [status] }";
    context_after_call(api, &sink, "excepted", "expect: []", except).await;
    assert_eq!(sink.calls_to("/excepted").len(), 1);

    let steady = "retry: { attempts: 3, backoff: 150ms, max: 10s, jitter: none }";
    context_after_call(api, &sink, "steady", "expect: []", steady).await;
    let calls = sink.calls_to("/steady");
    let gaps: Vec<_> = calls.windows(2).map(|pair| (pair[1].at - pair[0].at).as_millis()).collect();
    assert!(matches!(gaps[..], [first, second] if first >= 150 && second >= 300), "{gaps:?}");
}

async fn schedule_to_close_bounds_all_attempts(mode: FleetMode) {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    sink.set_answers("/retried", [SinkAnswer::Status(503)]);
    let rest = "timeouts: { schedule_to_close: 2s }, \
                retry: { attempts: 99, backoff: 400ms, max: 400ms, jitter: none }";
    let context = context_after_call(api, &sink, "retried", "expect: []", rest).await;
    let message = text_field(&context["why"], "message");
    assert!(message.contains("no time is left") || message.contains("schedule_to_close"), "{message}");
    let calls = sink.calls_to("/retried");
    assert!((2..=5).contains(&calls.len()), "{} calls", calls.len());

    sink.set_answers("/hung", [SinkAnswer::Hold(200)]);
    let rest = "timeouts: { schedule_to_close: 500ms }, retry: { attempts: 99, backoff: 10ms }";
    let begun = Instant::now();
    context_after_call(api, &sink, "hung", "expect: []", rest).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "an attempt ends with the time of all");
}

/// The sink's own address is allowed and nothing else of this machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirect_to_forbidden_address_is_refused() {
    let forbidden = TcpListener::bind(("127.0.0.2", 0)).await.expect("another address of this machine");
    let target = format!("http://{}/", forbidden.local_addr().unwrap());
    let sink = TestSink::start().await;
    sink.set_answers("/moved", [SinkAnswer::Header(307, "location", target.clone())]);
    let world = start_with(FLEET, &[("MILLSTREAM_HTTP_ALLOW", "127.0.0.1/32")]).await;
    let context =
        context_after_call(&world.api, &sink, "moved", "expect: []", "retry: { attempts: 5 }").await;
    assert_eq!(
        (&context["why"]["class"], &context["attempts"]),
        (&json!("forbidden"), &json!(1)),
        "{context}"
    );
    let direct = context_after_call(&world.api, &sink, "direct", "expect: []", ONCE).await;
    assert_eq!(direct["got"]["status"], 200, "{direct}");
    let reached = tokio::time::timeout(Duration::from_millis(1), forbidden.accept()).await;
    assert!(reached.is_err(), "{target} was called");
}

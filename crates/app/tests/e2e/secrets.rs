//! Secrets: their sources, when they are read, and that only the target sees them.

use millstream_testkit::sink::{SinkAnswer, SinkRequest};
use millstream_testkit::{FleetMode, TestSink, eventually};
use serde_json::json;

use crate::api::text_field;
use crate::definitions::definition_with_sink;
use crate::world::{E2eWorld, SOON, start_with};

both_modes!(
    secrets_are_read_per_attempt,
    missing_secret_is_named_then_used,
    echoed_secret_is_redacted,
    escaped_secret_is_redacted,
    secret_is_not_sent_to_other_origin,
);

const CALLING: &str = r#"
name: calling
initial: a
states:
  a: { on: { go: { to: b, do: [call] } } }
  b: { on: { called: { to: z, set: { got: event.payload.result } } } }
  z: { final: true }
actions:
  call:
    http:
      url: "SINK/${context.path}"
      headers: { authorization: 'Bearer ${secret("api-key")}' }
      body: { key: 'secret("other")', n: 1 }
    retry: { attempts: ATTEMPTS, backoff: 300ms, max: 300ms, jitter: none }
    on_success: called
"#;

const IN_FILE: &str = "tok-5Jc2-from-a-file";
const IN_ENVIRONMENT: &str = "tok-8Zp1-from-the-environment";

/// An engine with a secrets directory, and one more secret in its environment.
async fn world_with_secrets(mode: FleetMode, directory: &std::path::Path, other: &str) -> E2eWorld {
    let directory = directory.display().to_string();
    let env = [
        ("MILLSTREAM_WORKER__SECRETS_DIR", directory.as_str()),
        ("MILLSTREAM_SECRET_OTHER", other),
        ("MILLSTREAM_LOG", "debug"),
    ];
    start_with(mode, &env).await
}

fn definition_with_secret(sink: &TestSink, attempts: usize) -> String {
    definition_with_sink(CALLING, sink).replace("ATTEMPTS", &attempts.to_string())
}

/// A call that carries the secret.
async fn call_with(sink: &TestSink, secret: &str) -> SinkRequest {
    let wanted = format!("Bearer {secret}");
    eventually(SOON, || {
        let calls = sink.recorded_calls();
        let found = calls.iter().find(|call| call.header("authorization") == Some(&wanted)).cloned();
        std::future::ready(found.ok_or(calls.len()))
    })
    .await
}

async fn secrets_are_read_per_attempt(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/x", [SinkAnswer::Status(503)]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("api-key");
    std::fs::write(&file, format!("{IN_FILE}\n")).unwrap();
    let world = world_with_secrets(mode, directory.path(), IN_ENVIRONMENT).await;
    let api = &world.api;
    api.apply(&definition_with_secret(&sink, 50)).await;
    api.start_with_events("calling", "c-1", json!({ "path": "x" }), &["go"]).await;
    let first = call_with(&sink, IN_FILE).await;
    assert_eq!(first.json(), json!({ "key": IN_ENVIRONMENT, "n": 1 }));
    std::fs::write(&file, "tok-changed").unwrap();
    call_with(&sink, "tok-changed").await;
    sink.set_answers("/x", [SinkAnswer::Status(200)]);
    api.execution_in("c-1", "completed").await;
}

async fn missing_secret_is_named_then_used(mode: FleetMode) {
    let sink = TestSink::start().await;
    let directory = tempfile::tempdir().unwrap();
    let world = world_with_secrets(mode, directory.path(), IN_ENVIRONMENT).await;
    let api = &world.api;
    api.apply(&definition_with_secret(&sink, 2)).await;
    api.start_with_events("calling", "c-1", json!({ "path": "x" }), &["go"]).await;
    let incident = api.open_incident("c-1").await;
    assert_eq!((&incident["class"], &incident["attempts"]), (&json!("secret"), &json!(2)), "{incident}");
    assert!(text_field(&incident, "reason").contains(r#"no such secret: "api-key""#), "{incident}");
    assert!(sink.recorded_calls().is_empty(), "nothing is sent with a hole in it");
    std::fs::write(directory.path().join("api-key"), IN_FILE).unwrap();
    api.resolve(&incident, "retry", json!({})).await;
    api.execution_in("c-1", "completed").await;
    assert_eq!(sink.recorded_calls()[0].header("authorization"), Some("Bearer tok-5Jc2-from-a-file"));
}

async fn echoed_secret_is_redacted(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/good", [SinkAnswer::Echo(200)]);
    sink.set_answers("/bad", [SinkAnswer::Echo(400)]);
    sink.set_answers("/flaky", [SinkAnswer::Echo(503), SinkAnswer::Echo(200)]);
    // Truncated in the middle of the secret.
    let long = format!("{}{IN_FILE}", "x".repeat(490));
    sink.set_answers("/long", [SinkAnswer::Text(400, long)]);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("api-key"), IN_FILE).unwrap();
    let world = world_with_secrets(mode, directory.path(), IN_ENVIRONMENT).await;
    let api = &world.api;
    api.apply(&definition_with_secret(&sink, 3)).await;
    for path in ["good", "bad", "flaky", "long"] {
        api.start_with_events("calling", path, json!({ "path": path }), &["go"]).await;
    }
    for path in ["good", "flaky"] {
        let got = api.execution_in(path, "completed").await["context"]["got"].clone();
        assert_eq!(got["body"]["authorization"], "Bearer [secret api-key]", "{got}");
        assert!(text_field(&got["body"], "body").contains("[secret other]"), "{got}");
    }
    for path in ["bad", "long"] {
        let incident = api.open_incident(path).await;
        assert!(text_field(&incident, "reason").contains("answered 400"), "{incident}");
    }
    let secrets = [&IN_FILE[..10], &IN_ENVIRONMENT[..10]];
    assert_secrets_hidden(&world, &["good", "bad", "flaky", "long"], &secrets).await;
}

/// Quotes and slashes: targets write them in more than one way.
async fn escaped_secret_is_redacted(mode: FleetMode) {
    const ODD: &str = r#"tok/"9"/x"#;
    let sink = TestSink::start().await;
    let written = [
        r#"{"a": "tok\/\"9\"\/x"}"#,
        r#"{"a": "tok/\u00229\u0022/x", "n": 1.50}"#,
        r#"{"\u0074ok/\"9\"/x": 1}"#,
        r#"tok/"9"/x"#,
        "http://h/?k=tok%2F%229%22%2Fx",
    ];
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("api-key"), ODD).unwrap();
    let world = world_with_secrets(mode, directory.path(), IN_ENVIRONMENT).await;
    let api = &world.api;
    api.apply(&definition_with_secret(&sink, 1)).await;
    for (n, text) in written.iter().enumerate() {
        let kind = if text.starts_with('{') { "application/json" } else { "text/plain" };
        for (status, id) in [(200, format!("good-{n}")), (400, format!("bad-{n}"))] {
            sink.set_answers(&format!("/{id}"), [SinkAnswer::Kind(status, kind, (*text).to_owned())]);
            api.start_with_events("calling", &id, json!({ "path": id }), &["go"]).await;
        }
    }
    for n in 0..written.len() {
        let good = api.execution_in(&format!("good-{n}"), "completed").await.to_string();
        let bad = api.open_incident(&format!("bad-{n}")).await.to_string();
        for seen in [good, bad] {
            assert!(seen.contains("[secret api-key]"), "{n}: {seen}");
            let plain = seen.replace('\\', "");
            assert!(
                !plain.contains("9\"/x") && !plain.contains("u0022/x") && !plain.contains("%22%2Fx"),
                "{seen}"
            );
        }
    }
}

/// Another port is another origin.
async fn secret_is_not_sent_to_other_origin(mode: FleetMode) {
    let (sink, other) = (TestSink::start().await, TestSink::start().await);
    for path in ["/header", "/body"] {
        sink.set_answers(path, [SinkAnswer::Header(307, "location", other.url(path))]);
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("api-key"), IN_FILE).unwrap();
    let world = world_with_secrets(mode, directory.path(), IN_ENVIRONMENT).await;
    let api = &world.api;
    api.apply(&definition_with_secret(&sink, 1)).await;
    let header = definition_with_secret(&sink, 1)
        .replace("calling", "header")
        .replace("authorization: 'Bearer ", "x-plain: seen, x-token: 'Bearer ")
        .replace(r#"key: 'secret("other")', "#, "");
    api.apply(&header).await;
    api.start_with_events("header", "h-1", json!({ "path": "header" }), &["go"]).await;
    api.execution_in("h-1", "completed").await;
    let (first, second) = (&sink.recorded_calls()[0], &other.recorded_calls()[0]);
    assert_eq!(first.header("x-token"), Some("Bearer tok-5Jc2-from-a-file"));
    assert_eq!((second.header("x-token"), second.header("x-plain")), (None, Some("seen")), "{second:?}");
    assert_eq!(second.json(), json!({ "n": 1 }), "the rest goes on");

    api.start_with_events("calling", "b-1", json!({ "path": "body" }), &["go"]).await;
    let incident = api.open_incident("b-1").await;
    assert_eq!(incident["class"], "forbidden", "{incident}");
    assert_eq!(other.recorded_calls().len(), 1, "nothing of a body with a secret went on");
}

/// Checks that a secret is neither in an answer, nor in an output of a process, nor in the database.
async fn assert_secrets_hidden(world: &E2eWorld, executions: &[&str], secrets: &[&str]) {
    let mut paths: Vec<String> = [
        "/v1/executions",
        "/v1/events",
        "/v1/incidents",
        "/v1/incidents/groups",
        "/v1/definitions/calling",
        "/metrics",
    ]
    .map(str::to_owned)
    .into();
    for id in executions {
        for rest in ["", "/history", "/actions", "/timers"] {
            paths.push(format!("/v1/executions/{id}{rest}"));
        }
        paths.push(format!("/v1/events?execution_id={id}"));
    }
    for path in paths {
        let reply = world.api.client.get(&path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        for secret in secrets {
            assert!(!reply.body.contains(secret), "{path}: {}", reply.body);
        }
    }
    let outputs = world.fleet.all_outputs();
    for secret in secrets {
        assert!(!outputs.contains(secret), "an output holds {secret}");
    }
    match world.fleet.mode() {
        FleetMode::Embedded => {
            let file = world.fleet.sqlite_file();
            let beside = std::fs::read_dir(file.parent().unwrap()).unwrap().flatten();
            for file in beside.map(|entry| entry.path()).filter(|path| path.is_file()) {
                let bytes = std::fs::read(&file).unwrap();
                for secret in secrets {
                    let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                    assert!(!found, "{} holds {secret}", file.display());
                }
            }
        }
        FleetMode::Fleet { .. } => {
            for secret in secrets {
                world.fleet.execute_sql(&any_row_with(secret)).await;
            }
        }
    }
}

/// Fails where a row of any table holds the text, as text or as bytes.
fn any_row_with(secret: &str) -> String {
    format!(
        "DO $$ DECLARE t record; found bigint; BEGIN
           FOR t IN SELECT table_schema s, table_name n FROM information_schema.tables
                    WHERE table_schema NOT IN ('pg_catalog', 'information_schema') LOOP
             EXECUTE format('SELECT count(*) FROM %I.%I x WHERE x::text LIKE %L OR x::text LIKE %L', t.s, t.n,
                            '%{secret}%', '%' || encode('{secret}', 'hex') || '%') INTO found;
             IF found > 0 THEN RAISE EXCEPTION '% rows of % hold a secret', found, t.n; END IF;
           END LOOP;
         END $$"
    )
}

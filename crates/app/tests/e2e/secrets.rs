//! Secrets: their sources, when they are read, and that only the target sees them.

use millstream_testkit::sink::{Answer, Call};
use millstream_testkit::{Mode, Sink, eventually};
use serde_json::json;

use crate::api::text;
use crate::definitions::at;
use crate::world::{SOON, World, start_with};

both_modes!(
    a_secret_comes_from_a_file_or_the_environment_anew_for_each_attempt,
    a_secret_that_is_missing_is_named_and_used_once_it_is_there,
    a_secret_that_a_target_repeats_is_seen_by_nobody,
    a_secret_is_taken_out_however_it_is_written,
    a_secret_stays_with_the_origin_that_it_is_for,
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
async fn keeping(mode: Mode, directory: &std::path::Path, other: &str) -> World {
    let directory = directory.display().to_string();
    let env = [
        ("MILLSTREAM_WORKER__SECRETS_DIR", directory.as_str()),
        ("MILLSTREAM_SECRET_OTHER", other),
        ("MILLSTREAM_LOG", "debug"),
    ];
    start_with(mode, &env).await
}

fn calling(sink: &Sink, attempts: usize) -> String {
    at(CALLING, sink).replace("ATTEMPTS", &attempts.to_string())
}

/// A call that carries the secret.
async fn call_with(sink: &Sink, secret: &str) -> Call {
    let wanted = format!("Bearer {secret}");
    eventually(SOON, || {
        let calls = sink.calls();
        let found = calls.iter().find(|call| call.header("authorization") == Some(&wanted)).cloned();
        std::future::ready(found.ok_or(calls.len()))
    })
    .await
}

async fn a_secret_comes_from_a_file_or_the_environment_anew_for_each_attempt(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/x", [Answer::Status(503)]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("api-key");
    std::fs::write(&file, format!("{IN_FILE}\n")).unwrap();
    let world = keeping(mode, directory.path(), IN_ENVIRONMENT).await;
    let api = &world.api;
    api.apply(&calling(&sink, 50)).await;
    api.begin("calling", "c-1", json!({ "path": "x" }), &["go"]).await;
    let first = call_with(&sink, IN_FILE).await;
    assert_eq!(first.json(), json!({ "key": IN_ENVIRONMENT, "n": 1 }));
    std::fs::write(&file, "tok-changed").unwrap();
    call_with(&sink, "tok-changed").await;
    sink.script("/x", [Answer::Status(200)]);
    api.execution_in("c-1", "completed").await;
}

async fn a_secret_that_is_missing_is_named_and_used_once_it_is_there(mode: Mode) {
    let sink = Sink::start().await;
    let directory = tempfile::tempdir().unwrap();
    let world = keeping(mode, directory.path(), IN_ENVIRONMENT).await;
    let api = &world.api;
    api.apply(&calling(&sink, 2)).await;
    api.begin("calling", "c-1", json!({ "path": "x" }), &["go"]).await;
    let incident = api.incident("c-1").await;
    assert_eq!((&incident["class"], &incident["attempts"]), (&json!("secret"), &json!(2)), "{incident}");
    assert!(text(&incident, "reason").contains(r#"no such secret: "api-key""#), "{incident}");
    assert!(sink.calls().is_empty(), "nothing is sent with a hole in it");
    std::fs::write(directory.path().join("api-key"), IN_FILE).unwrap();
    api.resolve(&incident, "retry", json!({})).await;
    api.execution_in("c-1", "completed").await;
    assert_eq!(sink.calls()[0].header("authorization"), Some("Bearer tok-5Jc2-from-a-file"));
}

async fn a_secret_that_a_target_repeats_is_seen_by_nobody(mode: Mode) {
    let sink = Sink::start().await;
    sink.script("/good", [Answer::Echo(200)]);
    sink.script("/bad", [Answer::Echo(400)]);
    sink.script("/flaky", [Answer::Echo(503), Answer::Echo(200)]);
    // Truncated in the middle of the secret.
    let long = format!("{}{IN_FILE}", "x".repeat(490));
    sink.script("/long", [Answer::Text(400, long)]);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("api-key"), IN_FILE).unwrap();
    let world = keeping(mode, directory.path(), IN_ENVIRONMENT).await;
    let api = &world.api;
    api.apply(&calling(&sink, 3)).await;
    for path in ["good", "bad", "flaky", "long"] {
        api.begin("calling", path, json!({ "path": path }), &["go"]).await;
    }
    for path in ["good", "flaky"] {
        let got = api.execution_in(path, "completed").await["context"]["got"].clone();
        assert_eq!(got["body"]["authorization"], "Bearer [secret api-key]", "{got}");
        assert!(text(&got["body"], "body").contains("[secret other]"), "{got}");
    }
    for path in ["bad", "long"] {
        let incident = api.incident(path).await;
        assert!(text(&incident, "reason").contains("answered 400"), "{incident}");
    }
    let secrets = [&IN_FILE[..10], &IN_ENVIRONMENT[..10]];
    nowhere(&world, &["good", "bad", "flaky", "long"], &secrets).await;
}

/// Quotes and slashes: targets write them in more than one way.
async fn a_secret_is_taken_out_however_it_is_written(mode: Mode) {
    const ODD: &str = r#"tok/"9"/x"#;
    let sink = Sink::start().await;
    let written = [
        r#"{"a": "tok\/\"9\"\/x"}"#,
        r#"{"a": "tok/\u00229\u0022/x", "n": 1.50}"#,
        r#"{"\u0074ok/\"9\"/x": 1}"#,
        r#"tok/"9"/x"#,
        "http://h/?k=tok%2F%229%22%2Fx",
    ];
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("api-key"), ODD).unwrap();
    let world = keeping(mode, directory.path(), IN_ENVIRONMENT).await;
    let api = &world.api;
    api.apply(&calling(&sink, 1)).await;
    for (n, text) in written.iter().enumerate() {
        let kind = if text.starts_with('{') { "application/json" } else { "text/plain" };
        for (status, id) in [(200, format!("good-{n}")), (400, format!("bad-{n}"))] {
            sink.script(&format!("/{id}"), [Answer::Kind(status, kind, (*text).to_owned())]);
            api.begin("calling", &id, json!({ "path": id }), &["go"]).await;
        }
    }
    for n in 0..written.len() {
        let good = api.execution_in(&format!("good-{n}"), "completed").await.to_string();
        let bad = api.incident(&format!("bad-{n}")).await.to_string();
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
async fn a_secret_stays_with_the_origin_that_it_is_for(mode: Mode) {
    let (sink, other) = (Sink::start().await, Sink::start().await);
    for path in ["/header", "/body"] {
        sink.script(path, [Answer::Header(307, "location", other.url(path))]);
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("api-key"), IN_FILE).unwrap();
    let world = keeping(mode, directory.path(), IN_ENVIRONMENT).await;
    let api = &world.api;
    api.apply(&calling(&sink, 1)).await;
    let header = calling(&sink, 1)
        .replace("calling", "header")
        .replace("authorization: 'Bearer ", "x-plain: seen, x-token: 'Bearer ")
        .replace(r#"key: 'secret("other")', "#, "");
    api.apply(&header).await;
    api.begin("header", "h-1", json!({ "path": "header" }), &["go"]).await;
    api.execution_in("h-1", "completed").await;
    let (first, second) = (&sink.calls()[0], &other.calls()[0]);
    assert_eq!(first.header("x-token"), Some("Bearer tok-5Jc2-from-a-file"));
    assert_eq!((second.header("x-token"), second.header("x-plain")), (None, Some("seen")), "{second:?}");
    assert_eq!(second.json(), json!({ "n": 1 }), "the rest goes on");

    api.begin("calling", "b-1", json!({ "path": "body" }), &["go"]).await;
    let incident = api.incident("b-1").await;
    assert_eq!(incident["class"], "forbidden", "{incident}");
    assert_eq!(other.calls().len(), 1, "nothing of a body with a secret went on");
}

/// Checks that a secret is neither in an answer, nor in an output of a process, nor in the database.
async fn nowhere(world: &World, executions: &[&str], secrets: &[&str]) {
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
    let outputs = world.fleet.outputs();
    for secret in secrets {
        assert!(!outputs.contains(secret), "an output holds {secret}");
    }
    match world.fleet.mode() {
        Mode::Embedded => {
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
        Mode::Fleet { .. } => {
            for secret in secrets {
                world.fleet.sql(&any_row_with(secret)).await;
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

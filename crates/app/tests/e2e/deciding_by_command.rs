//! What people do about failures that nothing handles, from the command line: to the real worker and back.

use std::process::Output;

use millstream_testkit::sink::SinkAnswer;
use millstream_testkit::{FleetMode, TestSink};
use serde_json::{Value, json};

use crate::api::text_field;
use crate::definitions::{FRAGILE, definition_with_sink};
use crate::world::{E2eWorld, start_world};

both_modes!(
    cli_edited_input_gets_new_key,
    incident_group_is_retried_or_failed,
    a_signal_waits_for_its_execution
);

#[track_caller]
fn parse_output(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {output:?}"))
}

/// An execution with a permanently failed call: its id and its incident's.
async fn start_failing_execution(world: &E2eWorld) -> (String, String) {
    let id = world.api.start("fragile", json!({})).await;
    world.api.send_and_settle(&id, "work", json!({})).await;
    let found =
        parse_output(&world.fleet.run_cli(["--json", "incidents", "--status", "open", "--execution", &id]));
    (id, text_field(&found["items"][0], "incident_id"))
}

async fn cli_edited_input_gets_new_key(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Status(400)]);
    let world = start_world(mode).await;
    let cli = |arguments: &[&str]| world.fleet.run_cli(arguments);
    world.api.apply(&definition_with_sink(FRAGILE, &sink)).await;
    let (id, incident) = start_failing_execution(&world).await;

    let mut input = parse_output(&cli(&["incidents", "show", &incident, "--input"]));
    let url = text_field(&input["http"], "url").replace("/call", "/other");
    input["http"]["url"] = json!(url);
    let file = world.fleet.directory().join("input.json");
    std::fs::write(&file, input.to_string()).expect("write a file");
    let file = file.display().to_string();
    let wrong = world.fleet.directory().join("wrong.json");
    std::fs::write(&wrong, r#"{"log":"x"}"#).expect("write a file");
    let refused = cli(&["incidents", "retry", &incident, "--input", &wrong.display().to_string()]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");

    let args = ["--json", "incidents", "retry", &incident, "--input", &file, "--reason", "moved"];
    let retried = parse_output(&cli(&args));
    assert_eq!(retried["resolution"], "retry_with_input", "{retried}");
    let key = text_field(&retried, "key");
    assert!(key.ends_with("/call~1"), "{key}");
    world.api.execution_in(&id, "active").await;
    let calls = millstream_testkit::eventually(std::time::Duration::from_secs(20), || async {
        let calls: Vec<_> = sink.recorded_calls().into_iter().filter(|call| call.path == "/other").collect();
        if calls.is_empty() { Err("no call") } else { Ok(calls) }
    })
    .await;
    let sent = calls[0].headers.get("idempotency-key").map(|value| value.to_str().unwrap_or_default());
    assert_eq!(sent, Some(key.as_str()));
    let again = cli(&["incidents", "retry", &incident]);
    assert_eq!(again.status.code(), Some(3), "{again:?}");
    assert!(cli(&["incidents", "show", &incident]).status.success());
}

async fn incident_group_is_retried_or_failed(mode: FleetMode) {
    let sink = TestSink::start().await;
    sink.set_answers("/call", [SinkAnswer::Status(400)]);
    let world = start_world(mode).await;
    let cli = |arguments: &[&str]| world.fleet.run_cli(arguments);
    world.api.apply(&definition_with_sink(FRAGILE, &sink)).await;
    let (skipped, incident) = start_failing_execution(&world).await;
    let (failed, hopeless) = start_failing_execution(&world).await;
    let (first, _) = start_failing_execution(&world).await;
    let (second, _) = start_failing_execution(&world).await;

    let result = ["incidents", "skip", &incident, "--result", r#"{"by":"hand"}"#, "--reason", "done by hand"];
    assert!(cli(&result).status.success());
    world.api.execution_in(&skipped, "active").await;
    assert!(cli(&["incidents", "fail", &hopeless, "--reason", "hopeless"]).status.success());
    assert_eq!(world.api.execution_in(&failed, "failed").await["reason"], "hopeless");

    let groups = parse_output(&cli(&["--json", "incidents", "groups"]));
    let group = &groups["items"][0];
    assert_eq!(group["count"], 2, "{groups}");
    sink.set_answers("/call", [SinkAnswer::Status(200)]);
    let fingerprint = text_field(group, "fingerprint");
    let retried = parse_output(&cli(&["--json", "incidents", "retry", "--group", &fingerprint]));
    assert_eq!(retried["resolved"], 2, "{retried}");
    for id in [&first, &second] {
        world.api.execution_in(id, "active").await;
    }
    assert!(cli(&["incidents"]).status.success());
    assert!(cli(&["incidents", "groups"]).status.success());
    assert!(cli(&["incidents", "--json", "groups"]).status.success());
    assert_eq!(cli(&["incidents", "--status", "open", "groups"]).status.code(), Some(2));
}

async fn a_signal_waits_for_its_execution(mode: FleetMode) {
    let world = start_world(mode).await;
    let cli = |arguments: &[&str]| world.fleet.run_cli(arguments);
    let definition = "{name: parcel, initial: waiting, correlate: context.order,
        states: {waiting: {on: {paid: {to: sent}}}, sent: {final: true}}}";
    world.api.apply(definition).await;
    let kept =
        parse_output(&cli(&["--json", "signal", "order-17", "paid", r#"{"amount":3}"#, "--wait-for", "1h"]));
    assert_eq!(kept["status"], "buffered", "{kept}");
    let id = world.api.start("parcel", json!({"order": "order-17"})).await;
    world.api.execution_in(&id, "completed").await;
    let signal = world
        .api
        .client
        .get(&format!("/v1/signals/{}", text_field(&kept, "signal_id")))
        .await
        .expect_status(200);
    assert_eq!((&signal["status"], &signal["execution_id"]), (&json!("delivered"), &json!(id)), "{signal}");
    assert_eq!(cli(&["signal", "", "paid"]).status.code(), Some(2));
}

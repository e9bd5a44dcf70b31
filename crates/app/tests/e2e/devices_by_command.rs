//! Devices and their runs from the command line: assignments, explanations, and operations.

use std::process::Output;

use millstream_testkit::FleetMode;
use millstream_testkit::client::send_request;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{E2eWorld, start_world};

both_modes!(run_command_explains_device_choice, run_and_device_commands_take_effect);

#[track_caller]
fn parse_output(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {output:?}"))
}

#[track_caller]
fn stdout_text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn register_device(world: &E2eWorld, device: &str, body: Value) {
    let request = world.api.client.request(Method::PUT, &format!("/v1/devices/{device}"));
    send_request(request.json(&body)).await.expect_status(200);
}

async fn run_command_explains_device_choice(mode: FleetMode) {
    let world = start_world(mode).await;
    let cli = |arguments: &[&str]| world.fleet.run_cli(arguments);
    register_device(&world, "desk", json!({"capabilities": ["render"], "load": 0.1})).await;
    register_device(&world, "phone", json!({"capabilities": ["render"], "load": 0.9})).await;
    register_device(&world, "lamp", json!({})).await;
    let run = json!({"run_id": "film-1", "kind": "film", "requires": ["render"]});
    world.api.client.post("/v1/runs", &run).await.expect_status(201);
    let decline = json!({"device": "desk", "token": 1, "reason": "too hot"});
    world.api.client.post("/v1/runs/film-1/decline", &decline).await.expect_status(200);

    let why = stdout_text(&cli(&["why", "film-1"]));
    for said in
        ["assigned to phone", "phone was chosen", "had its chance", "lacks render", "declined", "too hot"]
    {
        assert!(why.contains(said), "{said:?} is missing:\n{why}");
    }
    let why = parse_output(&cli(&["--json", "why", "film-1"]));
    let seat = &why["seats"][0];
    assert_eq!((&seat["device"], &seat["previous"][0]["device"]), (&json!("phone"), &json!("desk")), "{why}");
    assert_eq!(seat["decision"]["detail"]["cards"][0]["device"], "phone", "{why}");
    assert!(stdout_text(&cli(&["run", "log", "film-1"])).contains("assigned → reassigning"));
    assert!(stdout_text(&cli(&["run", "get", "film-1"])).contains("too hot"));
    assert!(stdout_text(&cli(&["device", "get", "phone"])).contains("film-1"));
    assert_eq!(
        parse_output(&cli(&["--json", "run", "list", "--kind", "film"]))["items"][0]["run_id"],
        "film-1"
    );
}

async fn run_and_device_commands_take_effect(mode: FleetMode) {
    let world = start_world(mode).await;
    let cli = |arguments: &[&str]| world.fleet.run_cli(arguments);
    register_device(&world, "desk", json!({"capacity": 1})).await;
    assert_eq!(parse_output(&cli(&["--json", "device", "pause", "desk"]))["paused"], true);
    assert!(stdout_text(&cli(&["device", "list"])).contains("paused"));
    world
        .api
        .client
        .post("/v1/runs", &json!({"run_id": "r-1", "kind": "film", "assign": "manual"}))
        .await
        .expect_status(201);
    let refused = cli(&["run", "assign", "r-1", "missing"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let hint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(hint.contains("millstream why r-1"), "{hint}");
    assert!(stdout_text(&cli(&["device", "resume", "desk"])).contains("may be chosen"));
    assert_eq!(stdout_text(&cli(&["run", "assign", "r-1", "desk"])).trim(), "r-1 is assigned (desk)");
    assert_eq!(stdout_text(&cli(&["run", "pause", "r-1"])).trim(), "r-1 is assigned and paused (desk)");
    assert_eq!(parse_output(&cli(&["--json", "run", "resume", "r-1"]))["paused"], false);
    let cancelled = parse_output(&cli(&["--json", "run", "cancel", "r-1", "--reason", "enough"]));
    assert_eq!(cancelled["status"], "failed", "{cancelled}");
    assert_eq!(cli(&["run", "assign", "r-1", "desk"]).status.code(), Some(3));
    assert!(cli(&["run", "retry", "r-1"]).status.success());
    assert_eq!(parse_output(&cli(&["--json", "device", "remove", "desk"]))["removed"], true);
    let gone = cli(&["device", "get", "desk"]);
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");
    assert!(String::from_utf8_lossy(&gone.stderr).contains("millstream device list"), "{gone:?}");
    let missing = cli(&["why", "missing"]);
    assert_eq!(missing.status.code(), Some(3), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("millstream run list"), "{missing:?}");
}

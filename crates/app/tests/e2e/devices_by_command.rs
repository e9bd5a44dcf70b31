//! Devices and their runs from the command line: assignments, explanations, and operations.

use std::process::Output;

use millstream_testkit::Mode;
use millstream_testkit::client::send;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, start};

both_modes!(
    a_run_says_who_has_it_and_why_that_device,
    people_decide_about_runs_and_devices_from_the_command_line
);

#[track_caller]
fn shown(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {output:?}"))
}

#[track_caller]
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn register(world: &World, device: &str, body: Value) {
    let request = world.api.client.request(Method::PUT, &format!("/v1/devices/{device}"));
    send(request.json(&body)).await.expect(200);
}

async fn a_run_says_who_has_it_and_why_that_device(mode: Mode) {
    let world = start(mode).await;
    let cli = |arguments: &[&str]| world.fleet.cli(arguments);
    register(&world, "desk", json!({"capabilities": ["render"], "load": 0.1})).await;
    register(&world, "phone", json!({"capabilities": ["render"], "load": 0.9})).await;
    register(&world, "lamp", json!({})).await;
    let run = json!({"run_id": "film-1", "kind": "film", "requires": ["render"]});
    world.api.client.post("/v1/runs", &run).await.expect(201);
    let decline = json!({"device": "desk", "token": 1, "reason": "too hot"});
    world.api.client.post("/v1/runs/film-1/decline", &decline).await.expect(200);

    let why = text(&cli(&["why", "film-1"]));
    for said in
        ["assigned to phone", "phone was chosen", "had its chance", "lacks render", "declined", "too hot"]
    {
        assert!(why.contains(said), "{said:?} is missing:\n{why}");
    }
    let why = shown(&cli(&["--json", "why", "film-1"]));
    let seat = &why["seats"][0];
    assert_eq!((&seat["device"], &seat["previous"][0]["device"]), (&json!("phone"), &json!("desk")), "{why}");
    assert_eq!(seat["decision"]["detail"]["cards"][0]["device"], "phone", "{why}");
    assert!(text(&cli(&["run", "log", "film-1"])).contains("assigned → reassigning"));
    assert!(text(&cli(&["run", "get", "film-1"])).contains("too hot"));
    assert!(text(&cli(&["device", "get", "phone"])).contains("film-1"));
    assert_eq!(shown(&cli(&["--json", "run", "list", "--kind", "film"]))["items"][0]["run_id"], "film-1");
}

async fn people_decide_about_runs_and_devices_from_the_command_line(mode: Mode) {
    let world = start(mode).await;
    let cli = |arguments: &[&str]| world.fleet.cli(arguments);
    register(&world, "desk", json!({"capacity": 1})).await;
    assert_eq!(shown(&cli(&["--json", "device", "pause", "desk"]))["paused"], true);
    assert!(text(&cli(&["device", "list"])).contains("paused"));
    world
        .api
        .client
        .post("/v1/runs", &json!({"run_id": "r-1", "kind": "film", "assign": "manual"}))
        .await
        .expect(201);
    let refused = cli(&["run", "assign", "r-1", "missing"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let hint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(hint.contains("millstream why r-1"), "{hint}");
    assert!(text(&cli(&["device", "resume", "desk"])).contains("may be chosen"));
    assert_eq!(text(&cli(&["run", "assign", "r-1", "desk"])).trim(), "r-1 is assigned (desk)");
    assert_eq!(text(&cli(&["run", "pause", "r-1"])).trim(), "r-1 is assigned and paused (desk)");
    assert_eq!(shown(&cli(&["--json", "run", "resume", "r-1"]))["paused"], false);
    let cancelled = shown(&cli(&["--json", "run", "cancel", "r-1", "--reason", "enough"]));
    assert_eq!(cancelled["status"], "failed", "{cancelled}");
    assert_eq!(cli(&["run", "assign", "r-1", "desk"]).status.code(), Some(3));
    assert!(cli(&["run", "retry", "r-1"]).status.success());
    assert_eq!(shown(&cli(&["--json", "device", "remove", "desk"]))["removed"], true);
    let gone = cli(&["device", "get", "desk"]);
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");
    assert!(String::from_utf8_lossy(&gone.stderr).contains("millstream device list"), "{gone:?}");
    let missing = cli(&["why", "missing"]);
    assert_eq!(missing.status.code(), Some(3), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("millstream run list"), "{missing:?}");
}

//! The command line as a client: typical commands, and the exit codes that scripts rely on.

use std::process::Output;

use millstream_testkit::Mode;
use serde_json::{Value, json};

use crate::api::text;
use crate::definitions::ORDER;
use crate::world::{World, start};

both_modes!(a_workflow_can_be_driven_from_the_command_line, mistakes_have_exit_codes_and_say_what_to_do);

#[track_caller]
fn shown(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {output:?}"))
}

fn write(world: &World, name: &str, contents: &str) -> String {
    let path = world.fleet.directory().join(name);
    std::fs::write(&path, contents).expect("write a file");
    path.display().to_string()
}

async fn a_workflow_can_be_driven_from_the_command_line(mode: Mode) {
    let world = start(mode).await;
    let cli = |arguments: &[&str]| world.fleet.cli(arguments);
    let file = write(&world, "order.yaml", ORDER);
    assert!(cli(&["check", &file]).status.success());
    assert_eq!(shown(&cli(&["--json", "apply", &file]))["version"], 1);
    let started = shown(&cli(&["--json", "start", "order", "--id", "o-1", "--input", r#"{"total":3}"#]));
    assert_eq!(text(&started, "execution_id"), "o-1");
    let sent = shown(&cli(&["--json", "send", "o-1", "pay", "--payload", r#"{"amount":3}"#, "--wait", "20"]));
    assert_eq!(sent["status"], "completed", "{sent}");
    let got = shown(&cli(&["--json", "get", "o-1"]));
    assert_eq!(got["state"], "paid", "{got}");
    let listed = shown(&cli(&["--json", "list", "--definition", "order"]));
    assert!(listed.to_string().contains("o-1"), "{listed}");
    assert!(cli(&["get", "o-1", "--history", "--work"]).status.success());
    assert!(cli(&["list"]).status.success());
    assert!(cli(&["workers"]).status.success());
    assert!(cli(&["dead", "list"]).status.success());
    assert!(cli(&["cancel", "o-1", "--reason", "enough"]).status.success());
    assert_eq!(world.api.execution_in("o-1", "cancelled").await["state"], "paid");
    assert!(String::from_utf8_lossy(&cli(&["config"]).stdout).contains("reclaim_idle"));
    assert!(cli(&["completions", "bash"]).status.success());
}

async fn mistakes_have_exit_codes_and_say_what_to_do(mode: Mode) {
    let world = start(mode).await;
    let code = |arguments: &[&str]| {
        let output = world.fleet.cli(arguments);
        assert!(!output.stderr.is_empty(), "{arguments:?} says nothing");
        output.status.code()
    };
    let wrong = write(&world, "wrong.yaml", &ORDER.replace("{ to: shipped }", "{ to: shiped }"));
    assert_eq!(code(&["check", &wrong]), Some(2));
    assert_eq!(code(&["apply", &wrong]), Some(2));
    assert_eq!(code(&["apply", "/no/such/file.yaml"]), Some(2));
    assert_eq!(code(&["get", "missing"]), Some(3));
    assert_eq!(code(&["start", "missing"]), Some(3));
    assert_eq!(code(&["--url", "http://127.0.0.1:1", "list"]), Some(4));
    assert_eq!(code(&["no-such-command"]), Some(2));
    let body = json!({ "definition": "missing" });
    world.api.client.post("/v1/executions", &body).await.problem(404);
}

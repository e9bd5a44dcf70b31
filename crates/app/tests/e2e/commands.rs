//! The command line as a client: typical commands, and the exit codes that scripts rely on.

use std::process::Output;

use millstream_testkit::FleetMode;
use serde_json::{Value, json};

use crate::api::text_field;
use crate::definitions::ORDER;
use crate::world::{E2eWorld, start_world};

both_modes!(command_line_drives_a_workflow, cli_errors_have_exit_codes_and_hints);

#[track_caller]
fn parse_output(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {output:?}"))
}

fn write_file(world: &E2eWorld, name: &str, contents: &str) -> String {
    let path = world.fleet.directory().join(name);
    std::fs::write(&path, contents).expect("write a file");
    path.display().to_string()
}

async fn command_line_drives_a_workflow(mode: FleetMode) {
    let world = start_world(mode).await;
    let cli = |arguments: &[&str]| world.fleet.run_cli(arguments);
    let file = write_file(&world, "order.yaml", ORDER);
    assert!(cli(&["check", &file]).status.success());
    assert_eq!(parse_output(&cli(&["--json", "apply", &file]))["version"], 1);
    let started =
        parse_output(&cli(&["--json", "start", "order", "--id", "o-1", "--input", r#"{"total":3}"#]));
    assert_eq!(text_field(&started, "execution_id"), "o-1");
    let sent =
        parse_output(&cli(&["--json", "send", "o-1", "pay", "--payload", r#"{"amount":3}"#, "--wait", "20"]));
    assert_eq!(sent["status"], "completed", "{sent}");
    let got = parse_output(&cli(&["--json", "get", "o-1"]));
    assert_eq!(got["state"], "paid", "{got}");
    let listed = parse_output(&cli(&["--json", "list", "--definition", "order"]));
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

async fn cli_errors_have_exit_codes_and_hints(mode: FleetMode) {
    let world = start_world(mode).await;
    let code = |arguments: &[&str]| {
        let output = world.fleet.run_cli(arguments);
        assert!(!output.stderr.is_empty(), "{arguments:?} says nothing");
        output.status.code()
    };
    let wrong = write_file(&world, "wrong.yaml", &ORDER.replace("{ to: shipped }", "{ to: shiped }"));
    assert_eq!(code(&["check", &wrong]), Some(2));
    assert_eq!(code(&["apply", &wrong]), Some(2));
    assert_eq!(code(&["apply", "/no/such/file.yaml"]), Some(2));
    assert_eq!(code(&["get", "missing"]), Some(3));
    assert_eq!(code(&["start", "missing"]), Some(3));
    assert_eq!(code(&["--url", "http://127.0.0.1:1", "list"]), Some(4));
    assert_eq!(code(&["no-such-command"]), Some(2));
    let body = json!({ "definition": "missing" });
    world.api.client.post("/v1/executions", &body).await.expect_problem(404);
}

//! The log is sufficient: a replay gives the stored state, deciding again gives the recorded decisions, and
//! damage is found.

use millstream_testkit::{FleetMode, TestSink};
use serde_json::json;

use crate::definitions::{CHARGE, COUNTER, ORDER, definition_with_sink};
use crate::world::{E2eWorld, start_world};

both_modes!(
    replaying_everything_finds_no_difference,
    a_damaged_snapshot_is_found,
    redecide_finds_changed_rule,
    replay_command_shows_past_state,
);

async fn busy_world(mode: FleetMode) -> E2eWorld {
    let sink = TestSink::start().await;
    let world = start_world(mode).await;
    let api = &world.api;
    for definition in [ORDER.to_owned(), COUNTER.to_owned(), definition_with_sink(CHARGE, &sink)] {
        api.apply(&definition).await;
    }
    for i in 0..5 {
        let order = api.start("order", json!({ "total": i })).await;
        api.send(&order, "ship", json!({})).await;
        api.send(&order, "pay", json!({ "amount": 2 })).await;
        api.send_and_settle(&order, "pay", json!({ "amount": 2 })).await;
        let charge = api.start("charge", json!({ "order_id": i })).await;
        api.send_and_settle(&charge, "pay", json!({ "amount": i })).await;
        api.execution_in(&charge, "completed").await;
    }
    let body = json!({ "definition": "counter", "execution_id": "counted" });
    api.client.post("/v1/executions", &body).await.expect_status(201);
    for i in 0..3 {
        api.send_and_settle("counted", "add", json!({ "i": i })).await;
    }
    let cancelled = api.start("counter", json!({})).await;
    api.client.post(&format!("/v1/executions/{cancelled}/cancel"), &json!({})).await.expect_status(202);
    api.execution_in(&cancelled, "cancelled").await;
    world
}

async fn replaying_everything_finds_no_difference(mode: FleetMode) {
    let world = busy_world(mode).await;
    for arguments in [&["replay", "--all", "--check"][..], &["replay", "--all", "--check", "--redecide"]] {
        let output = world.fleet.run_cli(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    let one = world.fleet.run_cli(["replay", "counted", "--check", "--redecide"]);
    assert!(one.status.success(), "{one:?}");
    assert!(!world.fleet.run_cli(["replay", "missing", "--check"]).status.success());
}

async fn a_damaged_snapshot_is_found(mode: FleetMode) {
    let world = busy_world(mode).await;
    let damage = r#"UPDATE executions SET snapshot = replace(snapshot, '"n":3', '"n":4') WHERE execution_id = 'counted'"#;
    assert_eq!(world.fleet.execute_sql(damage).await, 1);
    assert_eq!(world.fleet.run_cli(["replay", "--all", "--check"]).status.code(), Some(1));
    assert_eq!(world.fleet.run_cli(["replay", "counted", "--check"]).status.code(), Some(1));
}

/// The deciding rule is changed directly in the store: the log still folds into the stored state, and only
/// deciding again shows the difference.
async fn redecide_finds_changed_rule(mode: FleetMode) {
    let world = busy_world(mode).await;
    let change = "UPDATE definitions SET source = replace(source, 'context.n + 1', 'context.n + 2') WHERE name = 'counter'";
    assert_eq!(world.fleet.execute_sql(change).await, 1);
    let replayed = world.fleet.run_cli(["replay", "counted", "--check"]);
    assert!(replayed.status.success(), "replaying evaluates nothing: {replayed:?}");
    let output = world.fleet.run_cli(["--json", "replay", "counted", "--check", "--redecide"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let order = world.fleet.run_cli(["replay", "--all", "--check"]);
    assert!(order.status.success(), "{order:?}");
}

async fn replay_command_shows_past_state(mode: FleetMode) {
    let world = busy_world(mode).await;
    let output = world.fleet.run_cli(["--json", "replay", "counted", "--at", "2"]);
    assert!(output.status.success(), "{output:?}");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON on standard output");
    assert!(shown.to_string().contains(r#""n":1"#), "{shown}");
}

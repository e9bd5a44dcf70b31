//! More nodes than there are places for them.

use serde_json::{Value, json};

use crate::mill::{Built, Mill, node};

fn of(role: &str, mut node: Value) -> Value {
    node["agent"] = json!({ "role": role });
    node
}

async fn a_crowd_before_one_executor_delays_nobody_else(built: Built) {
    let mut mill = Mill::idle(built).await;
    mill.hire("slow", &["--role", "slow", "--capacity", "2"]);
    mill.hire("fast", &["--role", "fast"]);
    let definition = "
name: nap
initial: tired
states:
  tired: { on: { lie: { do: [nap] }, slept: { to: fresh } } }
  fresh: { final: true }
actions:
  nap: { wait: { for: 1ms }, on_success: slept }
";
    let reply = mill.api.post_raw("/v1/definitions", "application/yaml", definition.to_owned()).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    // More than a worker has slots for.
    let crowd: Vec<Value> = (0..2_500).map(|n| of("slow", node(&format!("n{n}"), "hang", &[]))).collect();
    mill.create("crowd", json!({ "options": { "max_parallel": 2_500 }, "nodes": crowd })).await;
    mill.node_is("crowd", "n0", "RUNNING").await;

    let quick = [of("fast", node("a", "do", &[])), of("fast", node("b", "do", &["a"]))];
    mill.create("quick", json!({ "nodes": quick })).await;
    mill.ends("quick", "PASSED").await;
    let nap = json!({ "definition": "nap", "execution_id": "nap", "events": [{ "name": "lie" }] });
    mill.api.post("/v1/executions", &nap).await.expect_status(201);
    millstream_testkit::eventually(crate::mill::SOON, || async {
        let nap = mill.api.get("/v1/executions/nap").await.expect_status(200);
        if nap["status"] == "completed" { Ok(()) } else { Err(nap.to_string()) }
    })
    .await;
    let crowd = mill.graph("crowd").await;
    assert_eq!((&crowd["status"], &crowd["nodes"]["RUNNING"]), (&json!("RUNNING"), &json!(2_500)), "{crowd}");
}

in_both_modes! {
    a_crowd_before_one_executor_delays_nobody_else
}

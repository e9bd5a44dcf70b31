//! What runs, and in which order.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::mill::{Built, Mill, node, statuses};

async fn a_diamond_ends_after_both_its_sides(built: Built) {
    let mill = Mill::open(built).await;
    let nodes = [
        node("top", "return 1", &[]),
        node("left", "do", &["top"]),
        node("right", "do", &["top"]),
        node("end", "do", &["left", "right"]),
    ];
    mill.create("diamond", json!({ "nodes": nodes })).await;
    let nodes = mill.ends("diamond", "PASSED").await;
    let time = |node: &str, field: &str| nodes[node][field].as_str().unwrap().to_owned();
    for side in ["left", "right"] {
        assert!(time(side, "started_at") >= time("top", "ended_at"), "{nodes:#?}");
        assert!(time("end", "started_at") >= time(side, "ended_at"), "{nodes:#?}");
    }
    let end = mill.node("diamond", "end").await;
    assert_eq!(end["result"]["upstream"], json!(["left", "right"]), "{end}");
    assert_eq!(end["executor"], "first");
}

async fn a_thousand_nodes_on_three_levels_are_joined(built: Built) {
    let mill = Mill::open(built).await;
    let mut nodes = vec![node("top", "return 1", &[])];
    let mut leaves = Vec::new();
    for branch in 0..33 {
        let name = format!("branch-{branch}");
        nodes.push(node(&name, "do", &["top"]));
        for leaf in 0..29 {
            let leaf = format!("leaf-{branch}-{leaf}");
            nodes.push(node(&leaf, "do", &[&name]));
            leaves.push(leaf);
        }
    }
    let parents: Vec<&str> = leaves.iter().map(String::as_str).collect();
    nodes.push(node("join", "do", &parents));
    assert!(nodes.len() >= 990);
    mill.create("levels", json!({ "nodes": nodes })).await;
    let nodes = mill.ends("levels", "PASSED").await;
    assert!(nodes.values().all(|node| node["status"] == "PASS"), "{:?}", statuses(&nodes));
    let join = mill.node("levels", "join").await;
    assert_eq!(join["result"]["upstream"].as_array().unwrap().len(), leaves.len());
}

async fn a_list_that_is_known_only_at_run_time_is_fanned_out_and_joined(built: Built) {
    let mill = Mill::open(built).await;
    let list: Vec<u32> = (0..100).collect();
    let mut each = node("each", "do", &["list"]);
    each["fan_out"] = json!({ "over": "results.list" });
    let nodes = [node("list", &format!("return {}", json!(list)), &[]), each, node("join", "do", &["each"])];
    mill.create("fan", json!({ "nodes": nodes })).await;
    let nodes = mill.ends("fan", "PASSED").await;
    assert_eq!(nodes.len(), 103);
    assert_eq!(mill.node("fan", "each.42").await["result"]["item"], 42);
    let handed = mill.node("fan", "join").await["result"]["upstream"].as_array().unwrap().len();
    assert_eq!(handed, 101, "the fan-out and its instances");
}

async fn a_condition_closes_the_way(built: Built) {
    let mill = Mill::open(built).await;
    let when = |id: &str, condition: &str| json!({ "id": id, "parents": [{ "node": "score", "if": condition }], "task": { "goal": "do" } });
    let nodes = [
        node("score", r#"return {"value": 7}"#, &[]),
        when("high", "results.score.value > input.limit"),
        when("low", "results.score.value <= input.limit"),
        node("after-low", "do", &["low"]),
        node("join", "do", &["high", "low"]),
    ];
    mill.create("choice", json!({ "input": { "limit": 5 }, "nodes": nodes })).await;
    let nodes = mill.ends("choice", "PASSED").await;
    let expected = BTreeMap::from([
        ("score", "PASS"),
        ("high", "PASS"),
        ("low", "FILTERED"),
        ("after-low", "FILTERED"),
        ("join", "PASS"),
    ]);
    assert_eq!(statuses(&nodes), expected);
}

async fn a_node_can_be_a_graph_or_an_execution(built: Built) {
    let mill = Mill::open(built).await;
    let definition = "
name: stamp
initial: new
context: { stamped: null, what: null }
states:
  new: { after: [{ in: 100ms, send: go }], on: { go: { to: done, set: { stamped: context.what } } } }
  done: { final: true }
";
    let reply = mill.api.post_raw("/v1/definitions", "application/yaml", definition.to_owned()).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    let inner = json!({ "name": "inner", "nodes": [node("a", "do", &[]), node("b", "do", &["a"])] });
    let nodes = [
        node("first", r#"return "paper""#, &[]),
        json!({ "id": "sub", "parents": ["first"], "graph": inner }),
        json!({ "id": "stamp", "parents": ["first"], "task": { "dependencies": { "what": "first" } },
                "execution": { "definition": "stamp" } }),
        node("end", "do", &["sub", "stamp"]),
    ];
    mill.create("nested", json!({ "nodes": nodes })).await;
    mill.ends("nested", "PASSED").await;
    let stamp = mill.node("nested", "stamp").await;
    assert_eq!(stamp["result"]["stamped"], "paper", "{stamp}");
    let graphs = mill.api.get("/v1/graphs").await.expect_status(200);
    let inner: Vec<&Value> =
        graphs["items"].as_array().unwrap().iter().filter(|graph| graph["name"] == "inner").collect();
    assert_eq!((inner.len(), &inner[0]["status"]), (1, &json!("PASSED")), "{graphs}");
}

async fn a_research_graph_grows_as_it_goes(built: Built) {
    let mill = Mill::open(built).await;
    let agent = |id: &str, role: &str, parents: &[&str]| json!({ "id": id, "parents": parents, "agent": { "role": role }, "task": { "goal": id } });
    let nodes = [agent("plan", "planner", &[]), agent("report", "writer", &["plan"])];
    let graph = json!({ "input": { "topics": ["mills", "rivers", "bread"] }, "nodes": nodes });
    mill.create("research", graph).await;
    let nodes = mill.ends("research", "PASSED").await;
    assert_eq!(nodes.len(), 5, "{nodes:#?}");
    let report = mill.node("research", "report").await;
    assert_eq!(report["result"]["summary"].as_array().unwrap().len(), 4, "{report}");
    assert_eq!(mill.graph("research").await["revision"], 2);
    let logs = mill.api.get("/v1/graphs/research/nodes/plan/logs").await.expect_status(200);
    assert!(logs.to_string().contains("3 topics, 4 edits"), "{logs}");
}

async fn the_examples_run(built: Built) {
    let mut mill = Mill::idle(built).await;
    mill.hire("all-round", &["--label", "internet"]);
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("graphs");
    for name in ["diamond", "fan_out", "research"] {
        let file = examples.join(format!("{name}.yaml")).display().to_string();
        let created = mill.fleet.run_cli(["graph", "create", &file, "--id", name, "--wait"]);
        assert!(created.status.success(), "{created:?}");
    }
    let nodes = mill.nodes("fan_out").await;
    assert_eq!((nodes.len(), &nodes["alarm"]["status"]), (24, &json!("PASS")), "{:?}", statuses(&nodes));
    assert_eq!(mill.node("fan_out", "report").await["result"]["failed"], 2);
    assert!(mill.nodes("research").await.contains_key("search-1"));
}

in_both_modes! {
    the_examples_run
    a_diamond_ends_after_both_its_sides
    a_thousand_nodes_on_three_levels_are_joined
    a_list_that_is_known_only_at_run_time_is_fanned_out_and_joined
    a_condition_closes_the_way
    a_node_can_be_a_graph_or_an_execution
    a_research_graph_grows_as_it_goes
}

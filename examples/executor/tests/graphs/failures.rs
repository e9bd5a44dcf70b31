//! What failures lead to.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::mill::{Built, Mill, node, statuses};

fn quickly(mut node: Value, attempts: u32, on: &[&str]) -> Value {
    node["options"] = json!({ "retry": { "attempts": attempts, "backoff": "50ms", "on": on } });
    node
}

async fn a_node_is_tried_again_by_the_class_of_its_failure(built: Built) {
    let mill = Mill::open(built).await;
    let nodes = [
        quickly(node("busy", "unavailable until 3", &[]), 5, &["INFRA_ERROR"]),
        quickly(node("not-for-this", "task_error", &[]), 5, &["INFRA_ERROR"]),
        quickly(node("for-this", "task_error", &[]), 3, &["TASK_ERROR"]),
    ];
    mill.create("classes", json!({ "nodes": nodes })).await;
    let nodes = mill.ends("classes", "FAILED").await;
    let seen = |id: &str| (nodes[id]["status"].clone(), nodes[id]["attempt"].clone());
    assert_eq!(seen("busy"), (json!("PASS"), json!(3)), "{nodes:#?}");
    assert_eq!(seen("not-for-this"), (json!("TASK_ERROR"), json!(1)), "{nodes:#?}");
    assert_eq!(seen("for-this"), (json!("TASK_ERROR"), json!(3)), "{nodes:#?}");
    assert_eq!(nodes["for-this"]["error"], "it could not be done");
}

async fn a_failure_skips_what_comes_after_it_but_for_a_node_that_joins_anyway(built: Built) {
    let mill = Mill::open(built).await;
    let mut anyway = node("anyway", "do", &["broken", "fine"]);
    anyway["on_failure"] = json!("continue");
    anyway["is_final"] = json!(true);
    let nodes = [
        node("broken", "fail", &[]),
        node("fine", "do", &[]),
        node("child", "do", &["broken"]),
        node("grandchild", "do", &["child"]),
        anyway,
    ];
    mill.create("skips", json!({ "nodes": nodes })).await;
    let nodes = mill.ends("skips", "PASSED").await;
    let expected = BTreeMap::from([
        ("broken", "FAIL"),
        ("fine", "PASS"),
        ("child", "SKIPPED"),
        ("grandchild", "SKIPPED"),
        ("anyway", "PASS"),
    ]);
    assert_eq!(statuses(&nodes), expected);
    assert_eq!(nodes["broken"]["error"], "the answer is no");
}

async fn an_attempt_that_takes_too_long_is_a_timeout(built: Built) {
    let mill = Mill::open(built).await;
    let mut hang = quickly(node("hang", "hang", &[]), 2, &["TIMEOUT"]);
    hang["options"]["timeout"] = json!("300ms");
    mill.create("slow", json!({ "nodes": [hang] })).await;
    let nodes = mill.ends("slow", "FAILED").await;
    assert_eq!((&nodes["hang"]["status"], &nodes["hang"]["attempt"]), (&json!("TIMEOUT"), &json!(2)));
}

async fn answers_that_cannot_be_used_are_the_task_s_error(built: Built) {
    let mill = Mill::open(built).await;
    let nodes = [node("lost", "elsewhere", &[]), node("large", "large 1200000", &[])];
    mill.create("garbage", json!({ "nodes": nodes })).await;
    let nodes = mill.ends("garbage", "FAILED").await;
    for id in ["lost", "large"] {
        assert_eq!(nodes[id]["status"], "TASK_ERROR", "{nodes:#?}");
    }
    let error = nodes["lost"]["error"].as_str().unwrap();
    assert!(error.contains("elsewhere"), "{error}");
}

async fn a_cancelled_graph_runs_nothing_more(built: Built) {
    let mill = Mill::open(built).await;
    let nodes = [node("long", "hang", &[]), node("after", "do", &["long"])];
    mill.create("cancelled", json!({ "nodes": nodes })).await;
    mill.node_is("cancelled", "long", "RUNNING").await;
    mill.api.post("/v1/graphs/cancelled/cancel", &json!({ "reason": "enough" })).await;
    let nodes = mill.ends("cancelled", "CANCELLED").await;
    assert!(nodes.values().all(|node| node["status"] == "SKIPPED"), "{nodes:#?}");
    assert_eq!(mill.graph("cancelled").await["reason"], "enough");
}

async fn nobody_who_can_do_it_is_waited_for(built: Built) {
    let mut mill = Mill::idle(built).await;
    mill.hire("cook", &["--role", "cook"]);
    let mut only = node("paint", "do", &[]);
    only["agent"] = json!({ "role": "painter", "labels": ["blue"] });
    mill.create("painting", json!({ "nodes": [only] })).await;
    mill.node_is("painting", "paint", "RUNNING").await;
    mill.hire("painter", &["--role", "painter", "--label", "blue"]);
    let nodes = mill.ends("painting", "PASSED").await;
    assert_eq!(nodes["paint"]["executor"], "painter");
}

in_both_modes! {
    a_node_is_tried_again_by_the_class_of_its_failure
    a_failure_skips_what_comes_after_it_but_for_a_node_that_joins_anyway
    an_attempt_that_takes_too_long_is_a_timeout
    answers_that_cannot_be_used_are_the_task_s_error
    a_cancelled_graph_runs_nothing_more
    nobody_who_can_do_it_is_waited_for
}

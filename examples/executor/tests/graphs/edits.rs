//! Graphs that are edited while they run.

use serde_json::{Value, json};

use crate::mill::{Built, Mill, node, statuses};

async fn nodes_edit_the_graph_that_they_are_in(built: Built) {
    let mill = Mill::open(built).await;
    let nodes = [
        node("adds", "insert added", &[]),
        node("removes", "delete gone", &[]),
        node("gone", "do", &["adds", "removes"]),
    ];
    mill.create("by-nodes", json!({ "nodes": nodes })).await;
    let nodes = mill.ends("by-nodes", "PASSED").await;
    let ids: Vec<&str> = nodes.keys().map(String::as_str).collect();
    assert_eq!(ids, ["added", "adds", "removes"], "{nodes:#?}");
    assert_eq!(mill.graph("by-nodes").await["revision"], 3);
}

async fn an_edit_that_makes_no_sense_fails_its_node_and_changes_nothing(built: Built) {
    let mill = Mill::open(built).await;
    mill.create(
        "senseless",
        json!({ "nodes": [node("wrong", "delete wrong", &[]), node("other", "do", &[])] }),
    )
    .await;
    let nodes = mill.ends("senseless", "FAILED").await;
    assert_eq!(nodes["wrong"]["status"], "TASK_ERROR", "{nodes:#?}");
    assert_eq!((nodes.len(), &mill.graph("senseless").await["revision"]), (2, &json!(1)));
}

async fn people_insert_update_and_delete_while_it_runs(built: Built) {
    let mill = Mill::open(built).await;
    let nodes =
        [node("long", "sleep 3000", &[]), node("next", "fail", &["long"]), node("never", "do", &["next"])];
    mill.create("by-people", json!({ "nodes": nodes })).await;
    mill.node_is("by-people", "long", "RUNNING").await;
    let edits = json!({ "expected_revision": 1, "edits": [
        { "update": node("next", "do", &["long"]) },
        { "delete": "never" },
        { "insert": node("extra", "do", &["next"]) },
    ]});
    let answer = mill.api.post("/v1/graphs/by-people/edits", &edits).await.expect_status(200);
    assert_eq!(answer["revision"], 2, "{answer}");
    let nodes = mill.ends("by-people", "PASSED").await;
    let ids: Vec<&str> = nodes.keys().map(String::as_str).collect();
    assert_eq!(ids, ["extra", "long", "next"], "{:?}", statuses(&nodes));
}

async fn of_two_edits_of_one_revision_one_wins(built: Built) {
    let mill = Mill::open(built).await;
    mill.create("conflict", json!({ "nodes": [node("long", "sleep 3000", &[])] })).await;
    mill.node_is("conflict", "long", "RUNNING").await;
    let insert =
        |id: &str| json!({ "expected_revision": 1, "edits": [{ "insert": node(id, "do", &["long"]) }] });
    let (one, two) = (insert("one"), insert("two"));
    let (one, two) = tokio::join!(
        mill.api.post("/v1/graphs/conflict/edits", &one),
        mill.api.post("/v1/graphs/conflict/edits", &two),
    );
    let mut answers = [one.status, two.status];
    answers.sort_unstable();
    assert_eq!(answers, [200, 409], "{one:?} {two:?}");
    let nodes = mill.ends("conflict", "PASSED").await;
    assert_eq!((nodes.len(), &mill.graph("conflict").await["revision"]), (2, &json!(2)));
}

async fn an_edit_that_is_refused_says_why_and_changes_nothing(built: Built) {
    let mill = Mill::open(built).await;
    mill.create(
        "refused",
        json!({ "nodes": [node("long", "sleep 2000", &[]), node("next", "do", &["long"])] }),
    )
    .await;
    mill.node_is("refused", "long", "RUNNING").await;
    let edit = |edit: Value| json!({ "expected_revision": 1, "edits": [edit] });
    for (edits, word) in [
        (edit(json!({ "delete": "long" })), "RUNNING"),
        (edit(json!({ "update": node("next", "do", &["nowhere"]) })), "nowhere"),
        (edit(json!({ "update": node("next", "do", &["next"]) })), "own parent"),
        (edit(json!({ "insert": node("long", "do", &[]) })), "long"),
    ] {
        let problem = mill.api.post("/v1/graphs/refused/edits", &edits).await;
        assert_eq!(problem.status, 422, "{edits} {problem:?}");
        assert!(problem.body.contains(word) && problem.body.contains("edits[0]"), "{}", problem.body);
    }
    let nodes = mill.ends("refused", "PASSED").await;
    assert_eq!((nodes.len(), &mill.graph("refused").await["revision"]), (2, &json!(1)));
}

in_both_modes! {
    nodes_edit_the_graph_that_they_are_in
    an_edit_that_makes_no_sense_fails_its_node_and_changes_nothing
    people_insert_update_and_delete_while_it_runs
    of_two_edits_of_one_revision_one_wins
    an_edit_that_is_refused_says_why_and_changes_nothing
}

//! kill -9 in the middle of a graph.

use std::collections::BTreeMap;

use millstream_testkit::eventually;
use serde_json::{Value, json};

use crate::mill::{Built, Mill, SOON, node};

const NODES: usize = 200;

/// Ten chains of twenty, each node a little slow.
fn chains(mill: &Mill) -> Value {
    let file = mill.file("performed").display().to_string();
    let nodes = (0..NODES).map(|number| {
        let parents: Vec<String> = (number >= 10).then(|| format!("n{}", number - 10)).into_iter().collect();
        let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
        node(&format!("n{number}"), &format!("note {file} sleep 30"), &parents)
    });
    let options = json!({ "node": { "retry": { "attempts": 10, "backoff": "100ms" } } });
    json!({ "options": options, "nodes": nodes.collect::<Vec<_>>() })
}

fn performed(mill: &Mill) -> usize {
    std::fs::read_to_string(mill.file("performed")).unwrap_or_default().lines().count()
}

async fn begun(mill: &Mill, enough: usize) {
    eventually(SOON, || async {
        let performed = performed(mill);
        if performed >= enough { Ok(()) } else { Err(performed) }
    })
    .await;
}

/// Everything passed, and the log has one outcome per node.
async fn each_result_is_recorded_once(mill: &Mill, id: &str) {
    let nodes = mill.ends(id, "PASSED").await;
    assert_eq!(nodes.len(), NODES);
    assert!(nodes.values().all(|node| node["status"] == "PASS"), "{nodes:#?}");
    let mut passes: BTreeMap<String, usize> = BTreeMap::new();
    let watched = mill.fleet.cli(["graph", "watch", id, "--json"]);
    for line in String::from_utf8_lossy(&watched.stdout).lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["type"] == "node.completed" && event["status"] == "PASS" {
            *passes.entry(event["node"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    assert_eq!(passes.len(), NODES, "every node has an outcome on the log");
    assert!(passes.values().all(|count| *count == 1), "{passes:#?}");
    let replayed = mill.fleet.cli(["replay", id]);
    assert!(replayed.status.success(), "{replayed:?}");
}

async fn a_graph_survives_its_executor(built: Built) {
    let mut mill = Mill::open(built).await;
    mill.hire("second", &[]);
    mill.create("orphan", chains(&mill)).await;
    for (round, name) in ["third", "fourth", "fifth"].iter().enumerate() {
        begun(&mill, (round + 1) * 40).await;
        mill.executors[round].kill();
        mill.hire(name, &[]);
    }
    each_result_is_recorded_once(&mill, "orphan").await;
}

#[tokio::test]
async fn a_graph_survives_its_workers() {
    let mut mill = Mill::open(Built::Fleet).await;
    mill.create("survivor", chains(&mill)).await;
    for round in 0..3 {
        begun(&mill, (round + 1) * 40).await;
        mill.fleet.kill_worker(round);
        mill.fleet.start_worker(&[]);
    }
    each_result_is_recorded_once(&mill, "survivor").await;
}

in_both_modes! {
    a_graph_survives_its_executor
}

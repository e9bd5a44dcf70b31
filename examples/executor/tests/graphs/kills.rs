//! kill -9 in the middle of a graph, at moments that are drawn anew for every run.
//!
//! The seed is printed, and can be set ([`TestDice`]); processes repeat themselves only so far.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_testkit::dice::TestDice;
use millstream_testkit::eventually;
use serde_json::{Value, json};

use crate::mill::{Built, Mill, SOON, node};

const NODES: usize = 200;
const ROUNDS: usize = 3;

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

/// When to kill: after so many nodes were begun, and a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    performed: usize,
    delay: Duration,
}

/// The rounds of one run, in order.
fn moments() -> Vec<Moment> {
    let mut dice = TestDice::from_random_seed();
    let mut moment = || Moment {
        performed: usize::try_from(dice.below(NODES as u64)).unwrap(),
        delay: Duration::from_millis(dice.below(40)),
    };
    let mut moments: Vec<Moment> = (0..ROUNDS).map(|_| moment()).collect();
    moments.sort();
    moments
}

fn performed(mill: &Mill) -> usize {
    std::fs::read_to_string(mill.file("performed")).unwrap_or_default().lines().count()
}

async fn comes(mill: &Mill, moment: Moment) {
    eventually(SOON, || async {
        let performed = performed(mill);
        if performed >= moment.performed { Ok(()) } else { Err(performed) }
    })
    .await;
    // Not a wait for anything: where in the work of a node it strikes is up to the dice.
    tokio::time::timeout(moment.delay, std::future::pending::<()>()).await.unwrap_err();
}

/// Everything passed, and the log has one outcome per node.
async fn each_result_is_recorded_once(mill: &Mill, id: &str) {
    let nodes = mill.ends(id, "PASSED").await;
    assert_eq!(nodes.len(), NODES);
    assert!(nodes.values().all(|node| node["status"] == "PASS"), "{nodes:#?}");
    let mut passes: BTreeMap<String, usize> = BTreeMap::new();
    let watched = mill.fleet.run_cli(["graph", "watch", id, "--json"]);
    for line in String::from_utf8_lossy(&watched.stdout).lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["type"] == "node.completed" && event["status"] == "PASS" {
            *passes.entry(event["node"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    assert_eq!(passes.len(), NODES, "every node has an outcome on the log");
    assert!(passes.values().all(|count| *count == 1), "{passes:#?}");
    let replayed = mill.fleet.run_cli(["replay", id]);
    assert!(replayed.status.success(), "{replayed:?}");
}

async fn a_graph_survives_its_executor(built: Built) {
    let mut mill = Mill::open(built).await;
    mill.hire("second", &[]);
    mill.create("orphan", chains(&mill)).await;
    for (round, moment) in moments().into_iter().enumerate() {
        comes(&mill, moment).await;
        mill.executors[round].kill();
        mill.hire(&format!("next-{round}"), &[]);
    }
    each_result_is_recorded_once(&mill, "orphan").await;
}

#[tokio::test]
async fn a_graph_survives_its_workers() {
    let mut mill = Mill::open(Built::Fleet).await;
    mill.create("survivor", chains(&mill)).await;
    for (round, moment) in moments().into_iter().enumerate() {
        comes(&mill, moment).await;
        mill.fleet.kill_worker(round);
        mill.fleet.start_worker(&[]);
    }
    each_result_is_recorded_once(&mill, "survivor").await;
}

#[tokio::test]
async fn a_graph_survives_workers_and_executors_at_once() {
    let mut mill = Mill::open(Built::Fleet).await;
    mill.hire("second", &[]);
    mill.create("both", chains(&mill)).await;
    for (round, moment) in moments().into_iter().enumerate() {
        comes(&mill, moment).await;
        mill.fleet.kill_worker(round);
        mill.executors[round].kill();
        mill.fleet.start_worker(&[]);
        mill.hire(&format!("next-{round}"), &[]);
    }
    each_result_is_recorded_once(&mill, "both").await;
}

in_both_modes! {
    a_graph_survives_its_executor
}

//! `GET /v1/graphs/{graph_id}/watch`: each event once, as it happens.

use std::time::Duration;

use millstream_workflow::graph::NodeStatus;
use serde_json::{Value, json};

use crate::bench::open_options;
use crate::create::chain;
use crate::engine::Engine;
use crate::wire::{Served, Wire, serve};

async fn with_chain() -> (Served, Engine) {
    let door = serve(open_options()).await;
    let created = door.json("/v1/graphs", &chain("g-1").to_string()).await;
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    let engine = Engine::from(&door);
    (door, engine)
}

async fn watch(door: &Served, extra: &str) -> Wire {
    let mut wire = door.connect().await;
    wire.send(&format!("GET /v1/graphs/g-1/watch HTTP/1.1\r\nhost: localhost\r\n{extra}\r\n")).await;
    wire
}

/// The messages of a stream that has ended, as id, type and data.
fn messages(text: &str) -> Vec<(String, String, Value)> {
    let field = |message: &str, name: &str| {
        let line = message.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches(':').trim().to_owned())
    };
    let message = |message: &str| {
        let data = serde_json::from_str(&field(message, "data")?).unwrap();
        Some((field(message, "id")?, field(message, "event")?, data))
    };
    text.split("\n\n").filter_map(message).collect()
}

/// Decides and performs the graph until it ends.
async fn run(engine: &Engine) {
    engine.decide("g-1").await;
    engine.dispatch("g-1", "a", "exec-1").await;
    engine.pass("g-1", "a").await;
    engine.dispatch("g-1", "b", "exec-2").await;
    engine.answer("g-1", "b", NodeStatus::Pass, r#"{"go":false}"#).await;
}

const ALL: &[&str] = &[
    "workflow.created",
    "node.scheduled",
    "node.dispatched",
    "node.completed",
    "node.scheduled",
    "node.dispatched",
    "node.completed",
    "node.completed",
    "workflow.completed",
];

async fn whole(door: &Served, extra: &str) -> Vec<(String, String, Value)> {
    let text = watch(door, &format!("connection: close\r\n{extra}")).await.rest().await;
    messages(&text)
}

#[tokio::test]
async fn graph_watch_replays_in_order_then_ends() {
    let (door, engine) = with_chain().await;
    engine.decide("g-1").await;
    engine.dispatch("g-1", "a", "exec-1").await;
    engine.answer("g-1", "a", NodeStatus::Pass, r#"{"go":true}"#).await;
    engine.dispatch("g-1", "b", "exec-2").await;
    engine.answer("g-1", "b", NodeStatus::Pass, r#"{"go":true}"#).await;
    engine.pass("g-1", "c").await;
    let told = whole(&door, "").await;
    let types: Vec<&str> = told.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(types.first(), Some(&"workflow.created"));
    assert_eq!(types.last(), Some(&"workflow.completed"));
    let dispatched = &told.iter().find(|(_, kind, _)| kind == "node.dispatched").unwrap().2;
    assert_eq!(dispatched["type"], "node.dispatched");
    assert_eq!((&dispatched["node"], &dispatched["executor"]), (&json!("a"), &json!("exec-1")));
    assert_eq!((&dispatched["graph_id"], &dispatched["seq"]), (&json!("g-1"), &Value::Null));
    let completed = &told.iter().find(|(_, kind, _)| kind == "node.completed").unwrap().2;
    assert_eq!((&completed["node"], &completed["status"]), (&json!("a"), &json!("PASS")));
}

#[tokio::test]
async fn graph_watch_resumes_from_any_event() {
    let (door, engine) = with_chain().await;
    run(&engine).await;
    let all = whole(&door, "").await;
    let types: Vec<&str> = all.iter().map(|(_, kind, _)| kind.as_str()).collect();
    // c is filtered, and it alone decides the graph: the graph does not pass.
    assert_eq!(types[..types.len() - 1], ALL[..ALL.len() - 1], "{types:?}");
    for (at, (id, _, _)) in all.iter().enumerate().take(all.len() - 1) {
        let rest = whole(&door, &format!("last-event-id: {id}\r\n")).await;
        assert_eq!(rest, all[at + 1..], "after {id}");
    }
    let last = &all.last().unwrap().0;
    let nothing =
        door.request("GET", "/v1/graphs/g-1/watch", &format!("last-event-id: {last}\r\n"), "").await;
    assert!(nothing.starts_with("HTTP/1.1 204"), "{nothing}");
    let query = door.request("GET", &format!("/v1/graphs/g-1/watch?after={}", all[0].0), "", "").await;
    assert_eq!(messages(&query).len(), all.len() - 1);
}

#[tokio::test]
async fn graph_watch_streams_live_events() {
    let (door, engine) = with_chain().await;
    let mut wire = watch(&door, "connection: close\r\n").await;
    wire.until("event: workflow.created").await;
    run(&engine).await;
    let rest = wire.rest().await;
    let later = whole(&door, "").await;
    assert_eq!(messages(&rest), later[1..]);
}

#[tokio::test]
async fn graph_watch_survives_lost_announcement() {
    let (door, _) = with_chain().await;
    let mut wire = watch(&door, "").await;
    wire.until("event: workflow.created").await;
    // Decided by a worker whose announcements do not arrive here.
    Engine::from(&door).announcing(crate::bench::deps().streams).decide("g-1").await;
    wire.until("event: node.scheduled").await;
}

#[tokio::test]
async fn drain_ends_graph_watch() {
    let (door, _) = with_chain().await;
    let mut wire = watch(&door, "").await;
    wire.until("event: workflow.created").await;
    door.shutdown.cancel();
    wire.rest().await;
    let ended = tokio::time::timeout(Duration::from_secs(10), door.ended).await;
    ended.expect("the drain did not end").unwrap().unwrap();
}

#[tokio::test]
async fn open_graph_watches_are_limited() {
    let mut options = open_options();
    options.limits.tails = 1;
    let door = serve(options).await;
    door.json("/v1/graphs", &chain("g-1").to_string()).await;
    let mut first = watch(&door, "").await;
    first.until("event: workflow.created").await;
    let refused = watch(&door, "connection: close\r\n").await.rest().await;
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    let wrong = door.request("GET", "/v1/graphs/g-1/watch", "last-event-id: soon\r\n", "").await;
    assert!(wrong.starts_with("HTTP/1.1 422") && wrong.contains("Last-Event-ID"), "{wrong}");
    let none = door.request("GET", "/v1/graphs/none/watch", "", "").await;
    assert!(none.starts_with("HTTP/1.1 404") || none.starts_with("HTTP/1.1 429"), "{none}");
}

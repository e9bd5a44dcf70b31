//! `GET /v1/devices/{device_id}/assignments/stream`: the list, sent again on every change.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::open_options;
use crate::schema::mismatches;
use crate::wire::{Served, Wire, serve};

const STREAM: &str = "/v1/devices/one/assignments/stream";

async fn put(door: &Served, device: &str) {
    let answer = door
        .request(
            "PUT",
            &format!("/v1/devices/{device}"),
            "content-type: application/json\r\n",
            "{\"capacity\":1}",
        )
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

async fn with_device() -> Served {
    let door = serve(open_options()).await;
    put(&door, "one").await;
    door
}

async fn post(door: &Served, path: &str, body: &Value) {
    let answer = door.json(path, &body.to_string()).await;
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
}

async fn stream(door: &Served, extra: &str) -> Wire {
    let mut wire = door.connect().await;
    wire.send(&format!("GET {STREAM} HTTP/1.1\r\nhost: localhost\r\n{extra}\r\n")).await;
    wire
}

/// The next message: its id and its list.
async fn next(wire: &mut Wire) -> (String, Value) {
    wire.until("event: assignments\n").await;
    let message = wire.until("\n\n").await;
    let field = |name: &str| {
        let line = message.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {message:?}")).trim().to_owned()
    };
    (field("id:"), serde_json::from_str(&field("data:")).unwrap())
}

#[tokio::test]
async fn assignment_stream_sends_each_changed_list() {
    let door = with_device().await;
    let mut wire = stream(&door, "").await;
    let (id, list) = next(&mut wire).await;
    assert_eq!((&list["items"], &list["version"]), (&json!([]), &json!(id)));
    post(&door, "/v1/runs", &json!({"run_id": "r-1", "kind": "film"})).await;
    let (_, list) = next(&mut wire).await;
    assert_eq!(
        (&list["items"][0]["run_id"], &list["items"][0]["status"]),
        (&json!("r-1"), &json!("assigned"))
    );
    let document = millstream_ingress::openapi::document();
    assert_eq!(mismatches(&document, "Assignments", &list), Vec::<String>::new());
    post(&door, "/v1/runs/r-1/accept", &json!({"device": "one", "token": 1})).await;
    assert_eq!(next(&mut wire).await.1["items"][0]["status"], "claimed");
    post(&door, "/v1/runs/r-1/cancel", &json!({"reason": "enough"})).await;
    assert_eq!(next(&mut wire).await.1["items"], json!([]));
}

#[tokio::test]
async fn assignment_stream_resumes_from_version() {
    let door = with_device().await;
    post(&door, "/v1/runs", &json!({"run_id": "r-1", "kind": "film"})).await;
    let (version, _) = next(&mut stream(&door, "").await).await;
    let mut wire = stream(&door, &format!("last-event-id: {version}\r\n")).await;
    wire.until("\r\n\r\n").await;
    post(&door, "/v1/runs/r-1/accept", &json!({"device": "one", "token": 1})).await;
    let (other, list) = next(&mut wire).await;
    assert_eq!(list["items"][0]["status"], "claimed", "the list that was seen came again: {list}");
    assert_ne!(other, version);
    // An invalid version counts as the version of another list.
    assert_eq!(next(&mut stream(&door, "last-event-id: soon\r\n").await).await.0, other);
}

#[tokio::test]
async fn drain_ends_assignment_stream() {
    let door = with_device().await;
    let mut wire = stream(&door, "").await;
    next(&mut wire).await;
    door.shutdown.cancel();
    wire.rest().await;
    let ended = tokio::time::timeout(Duration::from_secs(10), door.ended).await;
    ended.expect("the drain did not end").unwrap().unwrap();
}

#[tokio::test]
async fn deleted_device_ends_assignment_stream() {
    let door = with_device().await;
    let mut wire = stream(&door, "").await;
    next(&mut wire).await;
    let gone = door.request("DELETE", "/v1/devices/one", "", "").await;
    assert!(gone.starts_with("HTTP/1.1 204"), "{gone}");
    // Until the last chunk of the answer.
    wire.until("\r\n0\r\n\r\n").await;
    let none = door.request("GET", STREAM, "", "").await;
    assert!(none.starts_with("HTTP/1.1 404"), "{none}");
}

#[tokio::test]
async fn open_assignment_streams_are_limited() {
    let mut options = open_options();
    options.limits.tails = 1;
    let door = serve(options).await;
    put(&door, "one").await;
    let mut first = stream(&door, "").await;
    next(&mut first).await;
    let refused = stream(&door, "connection: close\r\n").await.rest().await;
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
}

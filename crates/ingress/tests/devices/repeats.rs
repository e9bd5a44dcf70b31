//! Repeats of requests whose answer was lost.

use serde_json::json;

use crate::bench::Bench;
use crate::device_fixture::by;

#[tokio::test]
async fn repeated_device_act_is_idempotent() {
    let bench = Bench::with_devices(&["one", "two"]).await;
    bench.run("r-1", json!({})).await;
    let (device, token) = bench.holder("r-1").await;
    let complete = json!({"device": device, "token": token, "output": 7});
    for (verb, body) in
        [("accept", by(&device, token)), ("start", by(&device, token)), ("complete", complete)]
    {
        let first = bench.acted("r-1", verb, body.clone()).await;
        assert_eq!(bench.acted("r-1", verb, body).await, first, "{verb}");
    }
    let log = bench.get("/v1/runs/r-1/log").await.json();
    assert_eq!(log["items"].as_array().unwrap().len(), 6);
    for verb in ["decline", "release", "fail"] {
        let id = format!("r-{verb}");
        bench.run(&id, json!({})).await;
        let (device, token) = bench.holder(&id).await;
        if verb != "decline" {
            bench.acted(&id, "accept", by(&device, token)).await;
        }
        let mut body = by(&device, token);
        if verb == "fail" {
            (body["message"], body["retryable"]) = (json!("no"), json!(true));
        }
        bench.acted(&id, verb, body.clone()).await;
        let before = bench.get(&format!("/v1/runs/{id}/log")).await.json();
        bench.acted(&id, verb, body).await;
        assert_eq!(bench.get(&format!("/v1/runs/{id}/log")).await.json(), before, "{verb}");
    }
}

#[tokio::test]
async fn run_creation_is_idempotent_by_id() {
    let bench = Bench::with_devices(&["one"]).await;
    let body = json!({"run_id": "r-1", "kind": "film", "input": [1], "created_by": "one"});
    let first = bench.post("/v1/runs", &body).await;
    assert_eq!((first.status.as_u16(), first.header("location")), (201, "/v1/runs/r-1"));
    let again = bench.post("/v1/runs", &body).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, first.json()));
    let other = json!({"run_id": "r-1", "kind": "film", "input": [2], "created_by": "one"});
    bench.post("/v1/runs", &other).await.problem(409, "already-exists");
    // Without an id each request creates a new run.
    let ids: Vec<_> = [
        bench.post("/v1/runs", &json!({"kind": "film"})).await,
        bench.post("/v1/runs", &json!({"kind": "film"})).await,
    ]
    .iter()
    .map(|answer| answer.json()["run_id"].clone())
    .collect();
    assert_ne!(ids[0], ids[1]);
}

//! Every 409 of a device act: nothing is written, and the answer names the holder.

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::device_fixture::by;

/// A run that `one` processes under token 1.
async fn processing() -> Bench {
    let bench = Bench::with_devices(&["one"]).await;
    bench.run("r-1", json!({})).await;
    bench.acted("r-1", "accept", by("one", 1)).await;
    bench.acted("r-1", "start", by("one", 1)).await;
    bench.put_device("two", &json!({"capabilities": ["render"]})).await;
    bench
}

fn with(verb: &str, device: &str, token: i64) -> Value {
    let mut body = by(device, token);
    match verb {
        "progress" => (body["step"], body["total"]) = (json!(1), json!(2)),
        "fail" => body["message"] = json!("no"),
        _ => {}
    }
    body
}

#[tokio::test]
async fn stale_token_is_rejected_with_holder() {
    let bench = processing().await;
    for verb in ["accept", "decline", "start", "progress", "complete", "fail", "release", "abort"] {
        for (device, token) in [("two", 1), ("one", 7), ("two", 2), ("absent", 1)] {
            let problem = bench.act("r-1", verb, with(verb, device, token)).await.problem(409, "not-owner");
            let holder = &problem["holder"];
            assert_eq!(
                (&holder["device"], &holder["status"]),
                (&json!("one"), &json!("processing")),
                "{verb}"
            );
            assert!(holder["since"].is_string() && problem["detail"].as_str().unwrap().contains("one"));
        }
    }
    assert_eq!(bench.found("r-1").await["status"], "processing");
}

#[tokio::test]
async fn second_claim_names_first_device() {
    let bench = Bench::with_devices(&["one", "two"]).await;
    bench.run("r-1", json!({"assign": "manual"})).await;
    let claims = ["one", "two"].map(|device| bench.act("r-1", "claim", json!({"device": device})));
    let [first, second] = claims;
    let (first, second) = futures::join!(first, second);
    let (winner, loser) = if first.status == 200 { (first, second) } else { (second, first) };
    assert_eq!(winner.status, 200, "{winner:?}");
    let problem = loser.problem(409, "not-owner");
    let (device, _) = bench.holder("r-1").await;
    assert_eq!(problem["holder"]["device"], json!(device));
}

#[tokio::test]
async fn late_completion_of_reassigned_seat_is_rejected() {
    let bench = processing().await;
    bench.delete_device("one").await;
    let (device, token) = bench.holder("r-1").await;
    assert_eq!((device.as_str(), token), ("two", 2));
    let problem = bench.act("r-1", "complete", by("one", 1)).await.problem(409, "not-owner");
    assert_eq!(
        (&problem["holder"]["device"], &problem["holder"]["status"]),
        (&json!("two"), &json!("assigned"))
    );
}

#[tokio::test]
async fn impossible_run_act_names_state() {
    let bench = Bench::with_devices(&["one"]).await;
    bench.run("r-1", json!({})).await;
    for verb in ["start", "progress", "complete", "fail", "release", "abort"] {
        let problem = bench.act("r-1", verb, with(verb, "one", 1)).await.problem(409, "conflict");
        assert!(problem["detail"].as_str().unwrap().contains("assigned"), "{problem}");
    }
    bench.act("r-1", "retry", json!({})).await.problem(409, "conflict");
    bench.acted("r-1", "accept", by("one", 1)).await;
    bench.act("r-1", "decline", by("one", 1)).await.problem(409, "conflict");
    bench.act("r-1", "assign", json!({"device": "one"})).await.problem(409, "not-owner");
}

#[tokio::test]
async fn unsuitable_device_cannot_claim_run() {
    let bench = Bench::with_devices(&["one"]).await;
    bench.run("r-1", json!({"requires": ["fly"]})).await;
    let problem = bench.act("r-1", "claim", json!({"device": "one"})).await.problem(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().contains("fly"), "{problem}");
    bench.act("r-1", "claim", json!({"device": "absent"})).await.problem(404, "not-found");
}

#[tokio::test]
async fn paused_run_cannot_start_or_be_claimed() {
    let bench = Bench::with_devices(&["one", "two"]).await;
    bench.run("r-1", json!({})).await;
    let (device, token) = bench.holder("r-1").await;
    bench.acted("r-1", "accept", by(&device, token)).await;
    bench.acted("r-1", "pause", json!({})).await;
    bench.act("r-1", "start", by(&device, token)).await.problem(409, "conflict");
    bench.run("r-2", json!({"assign": "manual"})).await;
    bench.acted("r-2", "pause", json!({})).await;
    bench.act("r-2", "claim", json!({"device": "two"})).await.problem(409, "conflict");
}

#[tokio::test]
async fn disconnected_device_must_release_reassigned_seat() {
    let bench = processing().await;
    bench.delete_device("one").await;
    bench.put_device("one", &json!({"capabilities": ["render"]})).await;
    // No device has claimed it yet: `one` gets it back under a new token.
    let back = bench.acted("r-1", "offline_claim", by("one", 1)).await;
    assert_eq!((&back["status"], &back["token"]), (&json!("claimed"), &json!(3)));
    bench.act("r-1", "accept", by("two", 2)).await.problem(409, "not-owner");
    bench.acted("r-1", "release", by("one", 3)).await;
    let (device, token) = bench.holder("r-1").await;
    bench.acted("r-1", "accept", by(&device, token)).await;
    let problem = bench.act("r-1", "offline_claim", by("one", 1)).await.problem(409, "not-owner");
    assert_eq!(problem["holder"]["device"], json!(device));
}

#[tokio::test]
async fn unknown_run_or_device_is_404() {
    let bench = Bench::with_devices(&["one"]).await;
    bench.run("r-1", json!({})).await;
    for path in
        ["/v1/runs/none", "/v1/runs/none/log", "/v1/runs/none/why", "/v1/runs/no%20id", "/v1/devices/none"]
    {
        bench.get(path).await.problem(404, "not-found");
    }
    bench.act("none", "accept", by("one", 1)).await.problem(404, "not-found");
    let other_seat = json!({"device": "one", "seat": 3, "token": 1});
    bench.act("r-1", "accept", other_seat).await.problem(404, "not-found");
    for verb in ["heartbeat", "pause", "resume"] {
        bench.post(&format!("/v1/devices/none/{verb}"), &json!({})).await.problem(404, "not-found");
    }
    bench.get("/v1/devices/none/assignments").await.problem(404, "not-found");
}

//! `/v1/devices`: registration, heartbeats, and the reassignment of the runs of deleted devices.

use serde_json::json;

use crate::bench::Bench;
use crate::device_fixture::by;

#[tokio::test]
async fn device_is_registered_read_and_deleted() {
    let bench = Bench::with_devices(&["two", "one"]).await;
    let listed = bench.get("/v1/devices").await.json();
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|it| it["device_id"].clone()).collect();
    assert_eq!(ids, ["one", "two"]);
    let one = bench.get("/v1/devices/one").await.json();
    assert_eq!((&one["capacity"], &one["open"], &one["paused"]), (&json!(1), &json!(0), &json!(false)));
    for _ in 0..2 {
        assert_eq!(bench.delete_device("one").await.status, 204);
    }
    bench.get("/v1/devices/one").await.problem(404, "not-found");
}

#[tokio::test]
async fn deleted_device_loses_its_runs() {
    let bench = Bench::with_devices(&["one", "two"]).await;
    bench.run("r-1", json!({})).await;
    let (device, token) = bench.holder("r-1").await;
    bench.acted("r-1", "accept", by(&device, token)).await;
    bench.delete_device(&device).await;
    let (next, token) = bench.holder("r-1").await;
    assert!(next != device && token == 2, "{next} {token}");
    let previous = bench.found("r-1").await["seats"][0]["previous"][0].clone();
    assert_eq!((&previous["device"], &previous["reason"]), (&json!(device), &json!("gone")));
}

#[tokio::test]
async fn paused_device_keeps_runs_gets_none() {
    let bench = Bench::with_devices(&["one"]).await;
    bench.run("r-1", json!({})).await;
    let paused = bench.post("/v1/devices/one/pause", &json!({})).await.json();
    assert_eq!(paused["paused"], true);
    bench.acted("r-1", "accept", by("one", 1)).await;
    bench.put_device("one", &json!({"capabilities": ["render"], "capacity": 9})).await;
    assert_eq!(bench.run("r-2", json!({})).await["status"], "reassigning");
    assert_eq!(bench.post("/v1/devices/one/resume", &json!({})).await.json()["paused"], false);
    assert_eq!(bench.run("r-3", json!({})).await["status"], "assigned");
}

#[tokio::test]
async fn heartbeat_reports_held_runs() {
    let bench = Bench::with_devices(&["one"]).await;
    bench.put_device("two", &json!({"capabilities": ["render"]})).await;
    bench.put_device("one", &json!({"capabilities": ["render"]})).await;
    for id in ["claimed", "asked", "lost", "paused"] {
        bench.run(id, json!({"assign": "manual"})).await;
    }
    for id in ["claimed", "lost", "paused"] {
        bench.acted(id, "claim", json!({"device": "one"})).await;
    }
    bench.acted("asked", "assign", json!({"device": "one"})).await;
    bench.acted("paused", "pause", json!({})).await;
    bench.acted("lost", "release", by("one", 1)).await;
    bench.acted("lost", "claim", json!({"device": "two"})).await;
    let runs: Vec<_> =
        ["claimed", "asked", "lost", "paused", "none"].map(|id| json!({"run_id": id, "token": 1})).into();
    let beat = json!({"load": 0.5, "battery": 40, "on_battery": true, "runs": runs});
    let heard = bench.post("/v1/devices/one/heartbeat", &beat).await.json();
    let of = |at: usize, field: &str| heard["runs"][at][field].clone();
    assert_eq!(
        [0, 1, 2, 3, 4].map(|at| of(at, "held")),
        [true, true, false, true, false].map(|it| json!(it))
    );
    assert_eq!(
        [0, 1, 2, 3, 4].map(|at| of(at, "release")),
        [false, false, true, false, true].map(|it| json!(it))
    );
    assert_eq!((of(0, "paused"), of(3, "paused")), (json!(false), json!(true)));
    assert!(of(0, "until").is_string());
    assert_eq!(of(2, "holder")["device"], "two");
    let one = bench.get("/v1/devices/one").await.json();
    assert_eq!((&one["load"], &one["battery"], &one["on_battery"]), (&json!(0.5), &json!(40), &json!(true)));
    // Fields that were left out keep their value.
    assert_eq!(one["capabilities"], json!(["render"]));
}

#[tokio::test]
async fn heartbeat_carries_run_progress() {
    let bench = Bench::with_devices(&["one"]).await;
    bench.run("r-1", json!({})).await;
    bench.acted("r-1", "accept", by("one", 1)).await;
    bench.acted("r-1", "start", by("one", 1)).await;
    let beat = json!({"runs": [{"run_id": "r-1", "token": 1, "progress": {"step": 3, "total": 4}}]});
    bench.post("/v1/devices/one/heartbeat", &beat).await;
    assert_eq!(bench.found("r-1").await["seats"][0]["progress"], json!({"step": 3, "total": 4}));
}

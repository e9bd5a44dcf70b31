//! Real answers about devices and runs match the OpenAPI document.

use serde_json::json;

use crate::bench::Bench;
use crate::device_fixture::by;
use crate::schema::mismatches;

#[tokio::test]
async fn device_answers_match_openapi() {
    let bench = Bench::with_devices(&["one", "two"]).await;
    let document = bench.get("/openapi.json").await.json();
    let created = bench.run("r-1", json!({"min_battery": 5, "created_by": "one", "willing": false})).await;
    let (device, token) = bench.holder("r-1").await;
    let assignments = bench.get(&format!("/v1/devices/{device}/assignments")).await.json();
    let accepted = bench.acted("r-1", "accept", by(&device, token)).await;
    bench.acted("r-1", "start", by(&device, token)).await;
    let progress = json!({"step": 1, "total": 2, "note": "n"});
    let beat = json!({"runs": [
        {"run_id": "r-1", "token": token, "progress": progress}, {"run_id": "r-1", "token": 9}, {"run_id": "none", "token": 1},
    ]});
    let heard = bench.post(&format!("/v1/devices/{device}/heartbeat"), &beat).await.json();
    let stale = bench.act("r-1", "complete", by("two", 9)).await.problem(409, "not-owner");
    bench.acted("r-1", "abort", json!({"device": device, "token": token, "reason": "x"})).await;
    let (device, token) = bench.holder("r-1").await;
    bench.acted("r-1", "accept", by(&device, token)).await;
    let failed = json!({"device": device, "token": token, "message": "no", "class": "c"});
    let failed = bench.acted("r-1", "fail", failed).await;
    bench.run("r-2", json!({"requires": ["none"]})).await;
    for (schema, answer) in [
        ("Run", created),
        ("Assignments", assignments),
        ("RunActed", accepted),
        ("RunActed", failed),
        ("DeviceHeard", heard),
        ("Problem", stale),
        ("Run", bench.found("r-1").await),
        ("Run", bench.acted("r-2", "pause", json!({})).await),
        ("RunPage", bench.get("/v1/runs").await.json()),
        ("RunLogEntryPage", bench.get("/v1/runs/r-1/log").await.json()),
        ("RunWhy", bench.get("/v1/runs/r-1/why").await.json()),
        ("RunWhy", bench.get("/v1/runs/r-2/why").await.json()),
        ("Device", bench.get("/v1/devices/one").await.json()),
        ("DevicePage", bench.get("/v1/devices").await.json()),
    ] {
        assert_eq!(mismatches(&document, schema, &answer), Vec::<String>::new(), "{answer:#}");
    }
}

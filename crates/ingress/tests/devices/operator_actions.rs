//! Operator actions on runs.

use serde_json::json;

use crate::bench::Bench;
use crate::device_fixture::by;

#[tokio::test]
async fn operator_pauses_resumes_cancels_retries_run() {
    let bench = Bench::with_devices(&["one"]).await;
    bench.run("r-1", json!({})).await;
    for (verb, paused) in [("pause", true), ("pause", true), ("resume", false), ("resume", false)] {
        assert_eq!(bench.acted("r-1", verb, json!({})).await["paused"], paused, "{verb}");
    }
    let cancelled = bench.acted("r-1", "cancel", json!({"reason": "enough"})).await;
    assert_eq!(cancelled["status"], "failed");
    assert_eq!(cancelled["seats"][0]["error"], json!({"kind": "cancelled", "message": "enough"}));
    assert_eq!(bench.acted("r-1", "cancel", json!({})).await["status"], "failed");
    bench.act("r-1", "pause", json!({})).await.problem(409, "conflict");
    let retried = bench.acted("r-1", "retry", json!({})).await;
    assert_eq!((&retried["status"], &retried["seats"][0]["token"]), (&json!("assigned"), &json!(2)));
    bench.act("r-1", "retry", json!({})).await.problem(409, "conflict");
    bench.acted("r-1", "accept", by("one", 2)).await;
}

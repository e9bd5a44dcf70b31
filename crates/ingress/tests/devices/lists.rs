//! Paging of runs, devices and logs.

use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn device_lists_are_paged() {
    let bench = Bench::with_devices(&["a", "b", "c"]).await;
    for id in ["r-1", "r-2", "r-3"] {
        bench.run(id, json!({})).await;
    }
    for (path, field, ids) in [
        ("/v1/devices", "device_id", ["a", "b", "c"]),
        ("/v1/runs", "run_id", ["r-3", "r-2", "r-1"]),
        ("/v1/runs/r-1/log", "word", ["create", "assign", "recorded"]),
    ] {
        let mut found = Vec::new();
        let mut next = format!("{path}?limit=1");
        loop {
            let page = bench.get(&next).await.json();
            found.extend(page["items"].as_array().unwrap().iter().map(|it| it[field].clone()));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            next = format!("{path}?limit=1&cursor={cursor}");
        }
        assert_eq!(found, ids, "{path}");
        bench.get(&format!("{path}?cursor=00")).await.problem(422, "invalid");
    }
}

#[tokio::test]
async fn runs_are_filtered_by_status_and_kind() {
    let bench = Bench::with_devices(&["a"]).await;
    bench.run("r-1", json!({})).await;
    bench.run("r-2", json!({"kind": "song"})).await;
    for (query, ids) in [
        ("status=assigned", vec!["r-1"]),
        ("status=reassigning", vec!["r-2"]),
        ("kind=song", vec!["r-2"]),
        ("execution_id=e-1", vec![]),
    ] {
        let page = bench.get(&format!("/v1/runs?{query}")).await.json();
        let found: Vec<_> = page["items"].as_array().unwrap().iter().map(|it| it["run_id"].clone()).collect();
        assert_eq!(found, ids, "{query}");
    }
    for query in ["status=done", "kind=Song", "execution_id=a%20b"] {
        bench.get(&format!("/v1/runs?{query}")).await.problem(422, "invalid");
    }
}

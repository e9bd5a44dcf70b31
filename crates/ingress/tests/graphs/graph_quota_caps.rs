//! Caps of a tenant on graph nodes: the time of one attempt, and the number of attempts.

use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_model::id::TenantId;
use millstream_model::quota::{QuotaName, QuotaSet, QuotaValue};
use millstream_testkit::eventually;
use millstream_testkit::eventually::PATIENCE;
use serde_json::json;

use crate::bench::Bench;
use crate::create::{chain, with_chain};

#[tokio::test]
async fn graph_beyond_attempt_cap_is_rejected() {
    let bench = Bench::open();
    let mut graph = chain("g-1");
    graph["nodes"][1]["options"] = json!({"timeout": "36500d"});
    let problem = bench.post("/v1/graphs", &graph).await.problem(422, "invalid");
    assert_eq!(problem["problems"][0]["path"], "nodes[1].options.timeout", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("max_action_timeout = 1d"), "{problem}");
    graph["nodes"][1]["options"] = json!({"timeout": "1d"});
    assert_eq!(bench.post("/v1/graphs", &graph).await.status, 201);
}

#[tokio::test]
async fn edit_beyond_attempt_cap_is_rejected() {
    let (bench, engine) = with_chain("g-1").await;
    let edit = |timeout: &str| {
        let node = json!({"id": "d", "options": {"timeout": timeout}});
        json!({"expected_revision": 1, "edits": [{"insert": node}]})
    };
    let refused = bench.post("/v1/graphs/g-1/edits", &edit("36500d")).await.problem(422, "invalid");
    assert_eq!(refused["problems"][0]["path"], "edits[0].insert.options.timeout", "{refused}");
    let modest = edit("1d");
    let edited = engine.while_deciding("g-1", bench.post("/v1/graphs/g-1/edits", &modest)).await;
    assert_eq!(edited.status, 200, "{edited:?}");
}

#[tokio::test]
async fn repeated_graph_ignores_lowered_caps() {
    let bench = Bench::open();
    let mut graph = chain("g-1");
    graph["nodes"][1]["options"] = json!({"timeout": "2h"});
    assert_eq!(bench.post("/v1/graphs", &graph).await.status, 201);
    let lower = QuotaSet::default().with(QuotaName::MaxActionTimeout, QuotaValue::AtMost(60_000));
    let (tenant, now) = (TenantId::default_tenant(), bench.clock.now());
    bench.stores.quotas.put_quota(&tenant, &lower, now).await.unwrap();
    // The caps are in force once another graph is rejected.
    let other = |n: usize| {
        let mut other = graph.clone();
        other["graph_id"] = json!(format!("other-{n}"));
        other
    };
    let asked = AtomicUsize::new(0);
    eventually(PATIENCE, || async {
        let answer = bench.post("/v1/graphs", &other(asked.fetch_add(1, Ordering::Relaxed))).await;
        if answer.status == 422 { Ok(()) } else { Err(answer.status) }
    })
    .await;
    assert_eq!(bench.post("/v1/graphs", &graph).await.status, 200);
}

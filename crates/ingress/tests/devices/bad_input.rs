//! Invalid requests are rejected with the path of each fault, and change nothing.

use serde_json::{Value, json};

use crate::bench::Bench;

#[track_caller]
fn path(problem: &Value) -> &str {
    problem["problems"][0]["path"].as_str().unwrap()
}

#[tokio::test]
async fn invalid_device_lists_faults() {
    let bench = Bench::open();
    for (body, wrong) in [
        (json!({"capabilities": ["A"]}), "capabilities[0]"),
        (json!({"capacity": 0}), "capacity"),
        (json!({"capacity": -1}), "capacity"),
        (json!({"load": 1.5}), "load"),
        (json!({"quality": -0.1}), "quality"),
        (json!({"battery": 101}), "battery"),
        (json!({"on_battery": 1}), "on_battery"),
        (json!({"lode": 1}), "lode"),
    ] {
        let problem = bench.put_device("one", &body).await.problem(422, "invalid");
        assert_eq!(path(&problem), wrong, "{problem}");
    }
    bench.put_device("no%20id", &json!({})).await.problem(404, "not-found");
    assert_eq!(bench.get("/v1/devices").await.json()["items"], json!([]));
    bench.put_device("one", &json!({})).await;
    for (body, wrong) in [
        (json!({"load": 2}), "load"),
        (json!({"runs": [{"run_id": "a b", "token": 1}]}), "runs[0].run_id"),
        (json!({"runs": [{"run_id": "a"}]}), "runs[0]"),
        (json!({"runs": [{"run_id": "a", "token": 1, "progress": {"step": 1}}]}), "runs[0].progress"),
        (json!({"runs": vec![json!({"run_id": "a", "token": 1}); 257]}), "runs"),
    ] {
        let problem = bench.post("/v1/devices/one/heartbeat", &body).await.problem(422, "invalid");
        assert_eq!(path(&problem), wrong, "{problem}");
    }
}

#[tokio::test]
async fn invalid_run_lists_faults() {
    let bench = Bench::open();
    for (field, value) in [
        ("run_id", json!("a b")),
        ("kind", json!("No")),
        ("requires", json!(7)),
        ("priority", json!("high")),
        ("priority", json!(3_000_000_000_i64)),
        ("devices", json!(0)),
        ("devices", json!(101)),
        ("min_battery", json!(101)),
        ("created_by", json!("")),
        ("assign", json!("both")),
        ("kin", json!("x")),
    ] {
        let mut body = json!({"kind": "film"});
        body[field] = value.clone();
        let problem = bench.post("/v1/runs", &body).await.problem(422, "invalid");
        assert_eq!(path(&problem), field, "{problem}");
    }
    for (settings, wrong) in
        [(json!({"heartbeat": 9}), "settings.heartbeat"), (json!({"hartbeat": "9s"}), "settings.hartbeat")]
    {
        let problem = bench.post("/v1/runs", &json!({"kind": "film", "settings": settings})).await;
        assert_eq!(path(&problem.problem(422, "invalid")), wrong);
    }
    let deep = format!(r#"{{"kind":"film","input":{}{}}}"#, "[".repeat(100), "]".repeat(100));
    let deep = bench.send(crate::bench::with_type("/v1/runs", "application/json", deep)).await;
    assert_eq!(path(&deep.problem(422, "invalid")), "input");
    assert_eq!(bench.get("/v1/runs").await.json()["items"], json!([]));
}

#[tokio::test]
async fn invalid_run_act_lists_faults() {
    let bench = Bench::with_devices(&["one"]).await;
    bench.run("r-1", json!({})).await;
    for (verb, body, wrong) in [
        ("accept", json!({"token": 1}), "device"),
        ("accept", json!({"device": "a b", "token": 1}), "device"),
        ("accept", json!({"device": "one"}), "token"),
        ("accept", json!({"device": "one", "token": "1"}), "token"),
        ("accept", json!({"device": "one", "token": 1, "seat": -1}), "seat"),
        ("accept", json!({"device": "one", "token": 1, "reason": "x"}), "reason"),
        ("decline", json!({"device": "one", "token": 1, "reason": 7}), "reason"),
        ("progress", json!({"device": "one", "token": 1, "total": 1}), "step"),
        ("progress", json!({"device": "one", "token": 1, "step": -1, "total": 1}), "step"),
        (
            "progress",
            json!({"device": "one", "token": 1, "step": 1, "total": 1, "note": "x".repeat(5000)}),
            "note",
        ),
        ("complete", json!({"device": "one", "token": 1, "output": "x".repeat(200_000)}), "output"),
        ("fail", json!({"device": "one", "token": 1}), "message"),
        ("fail", json!({"device": "one", "token": 1, "message": "m", "class": "A"}), "class"),
        ("fail", json!({"device": "one", "token": 1, "message": "m", "retryable": 1}), "retryable"),
        ("claim", json!({"device": "one", "token": 1}), "token"),
        ("assign", json!({}), "device"),
        ("cancel", json!({"why": "x"}), "why"),
    ] {
        let problem = bench.act("r-1", verb, body).await.problem(422, "invalid");
        assert_eq!(path(&problem), wrong, "{verb}: {problem}");
    }
    assert_eq!(bench.found("r-1").await["status"], "assigned");
}

//! `/v1/executors`: registration of executors of nodes.

use serde_json::{Value, json};

use crate::bench::Bench;

fn executor(name: &str) -> Value {
    json!({"name": name, "address": "http://127.0.0.1:7000", "roles": ["coder"], "labels": ["gpu"], "capacity": 4})
}

#[tokio::test]
async fn executor_registers_and_retires() {
    let bench = Bench::open();
    for name in ["second", "first"] {
        let answer = bench.post("/v1/executors", &executor(name)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json(), json!({"name": name, "beat_every": "5s"}));
    }
    let listed = bench.get("/v1/executors").await.json();
    let names: Vec<_> = listed["items"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!((&listed["items"][0]["capacity"], &listed["items"][0]["load"]), (&json!(4), &json!(0)));
    for _ in 0..2 {
        assert_eq!(bench.post("/v1/executors/first/retire", &json!({})).await.status, 204);
    }
    assert_eq!(bench.get("/v1/executors").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn invalid_executor_fault_has_path() {
    let bench = Bench::open();
    let with = |field: &str, value: Value| {
        let mut executor = executor("x");
        executor[field] = value;
        executor
    };
    for (body, path) in [
        (with("name", json!("No")), "name"),
        (with("address", json!("somewhere")), "address"),
        (with("address", json!("http://10.0.0.7:7000")), "address"),
        (with("address", json!("http://169.254.169.254:80")), "address"),
        (with("address", json!("http://[::1]:6379")), "address"),
        (with("capacity", json!(0)), "capacity"),
        (with("capacity", json!(-1)), "capacity"),
        (with("labels", json!(["A"])), "labels[0]"),
        (with("rolls", json!([])), "rolls"),
    ] {
        let problem = bench.post("/v1/executors", &body).await.problem(422, "invalid");
        assert_eq!(problem["problems"][0]["path"], path, "{problem}");
    }
    bench.post("/v1/executors/NO/retire", &json!({})).await.problem(404, "not-found");
}

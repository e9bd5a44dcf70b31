//! Short helpers for queues, people and items.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::bench::{Answer, Bench};

pub(crate) fn request(method: &str, path: &str, body: &Value) -> Request<Body> {
    let builder = Request::builder().method(method).uri(path).header("content-type", "application/json");
    builder.body(Body::from(body.to_string())).unwrap()
}

impl Bench {
    /// An ingress with a queue `q` of this configuration and this many items `i-0`, `i-1` and so on.
    pub(crate) async fn office(config: Value, items: usize) -> Self {
        let bench = Self::open();
        bench.queue("q", config).await;
        if items > 0 {
            let items: Vec<Value> =
                (0..items).map(|n| json!({"item_id": format!("i-{n}"), "payload": {"n": n}})).collect();
            let answer = bench.post("/v1/queues/q/items", &json!(items)).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        bench
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(request("PUT", path, body)).await
    }

    pub(crate) async fn queue(&self, name: &str, config: Value) {
        let answer = self.put(&format!("/v1/queues/{name}"), &config).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    pub(crate) async fn next(&self, person: &str) -> Value {
        let answer = self.post("/v1/assignments/next", &json!({"person": person})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// The id of the next assignment of the person.
    pub(crate) async fn given(&self, person: &str) -> String {
        let given = self.next(person).await;
        given["assignment"]["assignment_id"].as_str().unwrap_or_else(|| panic!("{given}")).to_owned()
    }

    /// The same, started.
    pub(crate) async fn begun(&self, person: &str) -> String {
        let id = self.given(person).await;
        self.done(&id, "start", json!({"person": person})).await;
        id
    }

    pub(crate) async fn act(&self, assignment: &str, verb: &str, body: Value) -> Answer {
        self.post(&format!("/v1/assignments/{assignment}/{verb}"), &body).await
    }

    /// The same for an act that must succeed.
    pub(crate) async fn done(&self, assignment: &str, verb: &str, body: Value) -> Value {
        let answer = self.act(assignment, verb, body).await;
        assert_eq!(answer.status, 200, "{verb}: {answer:?}");
        answer.json()
    }

    /// Assigned, started and submitted.
    pub(crate) async fn worked(&self, person: &str, answer: Value) -> String {
        let id = self.begun(person).await;
        self.done(&id, "submit", json!({"person": person, "answer": answer})).await;
        id
    }

    pub(crate) async fn item(&self, id: &str) -> Value {
        self.get(&format!("/v1/items/{id}")).await.json()
    }
}

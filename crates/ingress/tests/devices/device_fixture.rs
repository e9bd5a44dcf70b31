//! Short helpers for devices and their runs.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::bench::{Answer, Bench};

pub(crate) fn request(method: &str, path: &str, body: &Value) -> Request<Body> {
    let builder = Request::builder().method(method).uri(path).header("content-type", "application/json");
    builder.body(Body::from(body.to_string())).unwrap()
}

impl Bench {
    pub(crate) async fn put_device(&self, id: &str, body: &Value) -> Answer {
        self.send(request("PUT", &format!("/v1/devices/{id}"), body)).await
    }

    /// Registers devices with these ids that take one seat each.
    pub(crate) async fn with_devices(ids: &[&str]) -> Self {
        let bench = Self::open();
        for id in ids {
            let answer = bench.put_device(id, &json!({"capabilities": ["render"], "capacity": 1})).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        bench
    }

    pub(crate) async fn delete_device(&self, id: &str) -> Answer {
        self.send(request("DELETE", &format!("/v1/devices/{id}"), &Value::Null)).await
    }

    /// Creates a run with this id and these fields besides its kind.
    pub(crate) async fn run(&self, id: &str, with: Value) -> Value {
        let mut body = json!({"run_id": id, "kind": "film", "input": {"frames": 3}});
        body.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        let answer = self.post("/v1/runs", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    }

    pub(crate) async fn act(&self, run: &str, verb: &str, body: Value) -> Answer {
        self.post(&format!("/v1/runs/{run}/{verb}"), &body).await
    }

    /// The same for an act that must succeed.
    pub(crate) async fn acted(&self, run: &str, verb: &str, body: Value) -> Value {
        let answer = self.act(run, verb, body).await;
        assert_eq!(answer.status, 200, "{verb}: {answer:?}");
        answer.json()
    }

    pub(crate) async fn found(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}")).await.json()
    }

    /// The device and the token of the first seat.
    pub(crate) async fn holder(&self, run: &str) -> (String, i64) {
        let seat = self.found(run).await["seats"][0].clone();
        (seat["device"].as_str().unwrap().to_owned(), seat["token"].as_i64().unwrap())
    }
}

pub(crate) fn by(device: &str, token: i64) -> Value {
    json!({"device": device, "token": token})
}

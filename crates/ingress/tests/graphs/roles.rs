//! Roles and tenant isolation for graphs over HTTP.

use axum::body::Body;
use axum::http::Request;
use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::status::Role;
use serde_json::{Value, json};

use crate::bench::{Bench, get, header, open_options, post};
use crate::create::chain;
use crate::engine::Engine;

async fn keyed() -> Bench {
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    for role in [Role::Read, Role::Submit, Role::Admin, Role::Executor] {
        bench.key(&format!("ms_{role}"), "default", role).await;
    }
    bench.key("ms_other", "other", Role::Admin).await;
    bench
}

async fn send(bench: &Bench, request: Request<Body>, key: &str) -> crate::bench::Answer {
    bench.send(header(request, "authorization", &format!("Bearer {key}"))).await
}

#[tokio::test]
async fn graph_routes_require_roles() {
    let bench = keyed().await;
    let created = send(&bench, post("/v1/graphs", &chain("g-1")), "ms_submit").await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.json()["creator"], "default-submit");
    Engine::from(&bench).decide("g-1").await;
    let writes: [(&str, Value, &str); 7] = [
        ("/v1/graphs", chain("g-2"), "ms_submit"),
        ("/v1/graphs/g-1/edits", json!({}), "ms_submit"),
        ("/v1/graphs/g-1/nodes/a/result", json!({}), "ms_submit"),
        ("/v1/graphs/g-1/nodes/a/progress", json!({}), "ms_submit"),
        ("/v1/executors", json!({}), "ms_admin"),
        ("/v1/executors/x/retire", json!({}), "ms_submit"),
        ("/v1/graphs/g-1/cancel", json!({"x": 1}), "ms_admin"),
    ];
    for (path, body, key) in writes {
        send(&bench, post(path, &body), "ms_read").await.problem(403, "forbidden");
        bench.post(path, &body).await.problem(401, "unauthorized");
        let allowed = send(&bench, post(path, &body), key).await;
        assert!(![401, 403].contains(&allowed.status.as_u16()), "{path}: {allowed:?}");
    }
    send(&bench, post("/v1/graphs/g-1/cancel", &json!({})), "ms_submit").await.problem(403, "forbidden");
    for path in [
        "/v1/graphs",
        "/v1/graphs/g-1",
        "/v1/graphs/g-1/nodes",
        "/v1/graphs/g-1/nodes/a",
        "/v1/graphs/g-1/nodes/a/logs",
        "/v1/executors",
    ] {
        bench.get(path).await.problem(401, "unauthorized");
        assert_eq!(send(&bench, get(path), "ms_read").await.status, 200, "{path}");
    }
    send(&bench, get("/v1/graphs/g-1/watch"), "ms_none").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn foreign_graphs_are_404() {
    let bench = keyed().await;
    send(&bench, post("/v1/graphs", &chain("g-1")), "ms_submit").await;
    let executor = json!({"name": "mine", "address": "http://h:1", "capacity": 1});
    send(&bench, post("/v1/executors", &executor), "ms_executor").await;
    for path in ["/v1/graphs/g-1", "/v1/graphs/g-1/nodes", "/v1/graphs/g-1/nodes/a", "/v1/graphs/g-1/watch"] {
        send(&bench, get(path), "ms_other").await.problem(404, "not-found");
    }
    for path in ["/v1/graphs", "/v1/executors"] {
        assert_eq!(send(&bench, get(path), "ms_other").await.json()["items"], json!([]), "{path}");
    }
    // A foreign key cannot retire an executor either.
    send(&bench, post("/v1/executors/mine/retire", &json!({})), "ms_other").await;
    let left = send(&bench, get("/v1/executors"), "ms_read").await.json();
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

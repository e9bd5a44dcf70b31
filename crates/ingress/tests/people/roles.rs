//! Roles and tenant isolation for people's work.

use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::status::Role;
use serde_json::{Value, json};

use crate::bench::{Answer, Bench, header, open_options};
use crate::people_fixture::request;

async fn keyed() -> Bench {
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    for role in [Role::Read, Role::Submit, Role::Admin] {
        bench.key(&format!("ms_{role}"), "default", role).await;
    }
    bench.key("ms_other", "other", Role::Admin).await;
    bench
}

async fn send(bench: &Bench, method: &str, path: &str, body: &Value, key: &str) -> Answer {
    bench.send(header(request(method, path, body), "authorization", &format!("Bearer {key}"))).await
}

#[tokio::test]
async fn foreign_queues_and_items_are_404() {
    let bench = keyed().await;
    send(&bench, "PUT", "/v1/queues/q", &json!({}), "ms_admin").await;
    send(&bench, "PUT", "/v1/people/ann", &json!({}), "ms_admin").await;
    let item = json!({"item_id": "i-1", "payload": 1});
    send(&bench, "POST", "/v1/queues/q/items", &item, "ms_submit").await;
    let ask = json!({"person": "ann"});
    let given = send(&bench, "POST", "/v1/assignments/next", &ask, "ms_submit").await.json();
    let id = given["assignment"]["assignment_id"].as_str().unwrap();
    for path in ["/v1/queues/q", "/v1/people/ann", "/v1/items/i-1", &format!("/v1/assignments/{id}")] {
        assert_eq!(send(&bench, "GET", path, &Value::Null, "ms_read").await.status, 200, "{path}");
        send(&bench, "GET", path, &Value::Null, "ms_other").await.problem(404, "not-found");
    }
    let path = format!("/v1/assignments/{id}/start");
    send(&bench, "POST", &path, &ask, "ms_other").await.problem(404, "not-found");
    let none = send(&bench, "POST", "/v1/assignments/next", &ask, "ms_other").await.json();
    assert_eq!(none["idle"], "no_queue");
    for path in ["/v1/queues", "/v1/people", "/v1/items", "/v1/assignments", "/v1/queue_stats"] {
        let page = send(&bench, "GET", path, &Value::Null, "ms_other").await.json();
        assert_eq!(page["items"], json!([]), "{path}");
    }
}

#[tokio::test]
async fn work_key_is_bound_to_person() {
    let bench = keyed().await;
    bench.key("ms_work", "default", Role::Work).await;
    send(&bench, "PUT", "/v1/queues/q", &json!({}), "ms_admin").await;
    for person in ["ann", "bob"] {
        send(&bench, "PUT", &format!("/v1/people/{person}"), &json!({}), "ms_admin").await;
    }
    let item = json!({"item_id": "i-1", "payload": 1});
    send(&bench, "POST", "/v1/queues/q/items", &item, "ms_submit").await;
    let next = |person: &str| json!({ "person": person });
    send(&bench, "POST", "/v1/assignments/next", &next("bob"), "ms_work").await.problem(403, "forbidden");
    let given = send(&bench, "POST", "/v1/assignments/next", &next("ann"), "ms_work").await.json();
    let id = given["assignment"]["assignment_id"].as_str().unwrap();
    for act in ["start", "heartbeat", "skip", "submit"] {
        let body = json!({"person": "bob", "answer": 1});
        let body = if act == "submit" { body } else { next("bob") };
        let path = format!("/v1/assignments/{id}/{act}");
        send(&bench, "POST", &path, &body, "ms_work").await.problem(403, "forbidden");
    }
    let started = send(&bench, "POST", &format!("/v1/assignments/{id}/start"), &next("ann"), "ms_work").await;
    assert_eq!(started.status, 200, "{started:?}");
}

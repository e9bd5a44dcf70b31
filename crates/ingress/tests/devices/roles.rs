//! Roles and tenant isolation for devices and runs.

use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::status::Role;
use serde_json::json;

use crate::bench::{Answer, Bench, header, open_options};
use crate::device_fixture::request;

async fn keyed() -> Bench {
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    let bench = Bench::with(options, |stores, streams| (stores, streams));
    for role in [Role::Read, Role::Submit, Role::Admin] {
        bench.key(&format!("ms_{role}"), "default", role).await;
    }
    bench.key("ms_other", "other", Role::Admin).await;
    bench
}

async fn send(bench: &Bench, method: &str, path: &str, body: &serde_json::Value, key: &str) -> Answer {
    bench.send(header(request(method, path, body), "authorization", &format!("Bearer {key}"))).await
}

#[tokio::test]
async fn foreign_runs_and_devices_are_404() {
    let bench = keyed().await;
    send(&bench, "PUT", "/v1/devices/one", &json!({}), "ms_submit").await;
    send(&bench, "POST", "/v1/runs", &json!({"run_id": "r-1", "kind": "k"}), "ms_submit").await;
    let none = json!({});
    for path in ["/v1/runs/r-1", "/v1/runs/r-1/log", "/v1/runs/r-1/why", "/v1/devices/one"] {
        send(&bench, "GET", path, &none, "ms_other").await.problem(404, "not-found");
    }
    for path in ["/v1/runs", "/v1/devices"] {
        assert_eq!(send(&bench, "GET", path, &none, "ms_other").await.json()["items"], json!([]));
    }
    let accept = json!({"device": "one", "token": 1});
    send(&bench, "POST", "/v1/runs/r-1/accept", &accept, "ms_other").await.problem(404, "not-found");
    send(&bench, "DELETE", "/v1/devices/one", &none, "ms_other").await;
    assert_eq!(send(&bench, "GET", "/v1/devices/one", &none, "ms_read").await.status, 200);
    // In the other tenant the same id is another run, and none of our devices is chosen for it.
    let theirs = send(&bench, "POST", "/v1/runs", &json!({"run_id": "r-1", "kind": "k"}), "ms_other").await;
    assert_eq!((theirs.status.as_u16(), &theirs.json()["status"]), (201, &json!("reassigning")));
}

#[tokio::test]
async fn device_key_is_bound_to_device() {
    let bench = keyed().await;
    let key = json!({"name": "one", "role": "device", "device": "one"});
    let issued = send(&bench, "POST", "/v1/keys", &key, "ms_admin").await.json();
    let own = issued["key"].as_str().unwrap();
    for device in ["one", "two"] {
        let answer = send(&bench, "PUT", &format!("/v1/devices/{device}"), &json!({}), "ms_admin").await;
        assert!(answer.status.is_success(), "{answer:?}");
    }
    let run = json!({"run_id": "r-1", "kind": "k", "assign": "manual"});
    assert_eq!(send(&bench, "POST", "/v1/runs", &run, "ms_submit").await.status, 201);
    let claim = |device: &str| json!({ "device": device });
    send(&bench, "PUT", "/v1/devices/two", &json!({}), own).await.problem(403, "forbidden");
    send(&bench, "POST", "/v1/devices/two/heartbeat", &json!({}), own).await.problem(403, "forbidden");
    send(&bench, "POST", "/v1/runs/r-1/claim", &claim("two"), own).await.problem(403, "forbidden");
    assert!(send(&bench, "POST", "/v1/devices/one/heartbeat", &json!({}), own).await.status.is_success());
    assert_eq!(send(&bench, "POST", "/v1/runs/r-1/claim", &claim("one"), own).await.status, 200);
}

//! Who may do what with devices and runs, and that tenants do not meet.

use millstream_core::status::Role;
use millstream_ingress::{AuthMode, IngressOptions};
use serde_json::json;

use crate::bench::{Answer, Bench, header, open_options};
use crate::fleet::request;

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
async fn what_belongs_to_another_tenant_is_not_there() {
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
    // The same id is another run there, and no device of ours is chosen for it.
    let theirs = send(&bench, "POST", "/v1/runs", &json!({"run_id": "r-1", "kind": "k"}), "ms_other").await;
    assert_eq!((theirs.status.as_u16(), &theirs.json()["status"]), (201, &json!("reassigning")));
}

//! Keys: the key alone determines the caller, and objects of other tenants are not found.

use millstream_testkit::client::send_request;
use millstream_testkit::{FleetMode, TestClient, TestFleet, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{E2eApi, page_items, text_field};
use crate::definitions::ORDER;
use crate::world::{E2eWorld, SOON, start_world};

both_modes!(
    objects_of_other_tenants_are_404,
    roles_allow_their_operations_only,
    a_revoked_key_is_useless,
    keys_rotate_with_overlap
);

fn create_key(fleet: &TestFleet, name: &str, tenant: &str, role: &str) -> String {
    let output = fleet.run_cli(["--json", "keys", "create", name, "--tenant", tenant, "--role", role]);
    assert!(output.status.success(), "{output:?}");
    let key: Value = serde_json::from_slice(&output.stdout).expect("JSON on standard output");
    text_field(&key, "key")
}

/// An ingress may cache the absence of keys for a few seconds.
async fn keys_are_required(world: &E2eWorld) {
    eventually(SOON, || async {
        let reply = world.api.client.get("/v1/executions").await;
        if reply.status == 401 { Ok(()) } else { Err(reply) }
    })
    .await;
}

async fn wait_for_definition(client: &TestClient) {
    eventually(SOON, || async {
        let reply = client.get("/v1/executions").await;
        if reply.status == 401 { Err(reply) } else { Ok(()) }
    })
    .await;
}

async fn objects_of_other_tenants_are_404(mode: FleetMode) {
    let world = start_world(mode).await;
    let open = world.api.client.clone();
    let (alice, bob) =
        (create_key(&world.fleet, "alice", "a", "admin"), create_key(&world.fleet, "bob", "b", "admin"));
    keys_are_required(&world).await;
    open.get("/v1/executions").await.expect_problem(401);
    open.with_key("ms_made_up").get("/v1/executions").await.expect_problem(401);
    assert_eq!(open.get("/healthz").await.status, 200, "health needs no key");

    let (alice, bob) = (E2eApi::new(open.with_key(&alice)), E2eApi::new(open.with_key(&bob)));
    wait_for_definition(&alice.client).await;
    wait_for_definition(&bob.client).await;
    alice.apply(ORDER).await;
    let id = alice.start("order", json!({})).await;
    let event = alice.send_and_settle(&id, "pay", json!({ "amount": 1 })).await;
    assert_eq!(event["actor"], "alice", "{event}");
    let event = text_field(&event, "event_id");

    for path in [
        format!("/v1/executions/{id}"),
        format!("/v1/executions/{id}/history"),
        format!("/v1/executions/{id}/actions"),
        format!("/v1/executions/{id}/timers"),
        format!("/v1/executions/{id}/tail"),
        format!("/v1/events/{event}"),
        "/v1/definitions/order".to_owned(),
    ] {
        bob.client.get(&path).await.expect_problem(404);
    }
    bob.post_event(&id, "ship", json!({})).await.expect_problem(404);
    bob.client.post(&format!("/v1/executions/{id}/cancel"), &json!({})).await.expect_problem(404);
    bob.client.post(&format!("/v1/events/{event}/retry"), &json!({})).await.expect_problem(404);
    bob.client.post("/v1/executions", &json!({ "definition": "order" })).await.expect_problem(404);
    for path in ["/v1/executions", "/v1/definitions", "/v1/events"] {
        assert!(page_items(&bob.client.get(path).await.expect_status(200)).is_empty(), "{path}");
    }
    assert_eq!(alice.execution(&id).await["state"], "paid");

    // The same names and keys of another tenant are independent.
    bob.apply(ORDER).await;
    let body = json!({ "definition": "order", "execution_id": id });
    bob.client.post("/v1/executions", &body).await.expect_status(201);
    assert_eq!(bob.execution(&id).await["state"], "received");
    let key = [("idempotency-key", "same")];
    let one = alice.post_event_with(&id, &key, "ship", json!({})).await.expect_status(202);
    let two = bob.post_event_with(&id, &key, "ship", json!({ "other": 1 })).await.expect_status(202);
    assert_ne!(one["event_id"], two["event_id"]);
}

async fn roles_allow_their_operations_only(mode: FleetMode) {
    let world = start_world(mode).await;
    world.api.apply(ORDER).await;
    let id = world.api.start("order", json!({})).await;
    let key = |name, role| create_key(&world.fleet, name, "default", role);
    let (submit, read, admin) = (key("s", "submit"), key("r", "read"), key("a", "admin"));
    keys_are_required(&world).await;
    let client = |key: &str| E2eApi::new(world.api.client.with_key(key));
    let (submit, read, admin) = (client(&submit), client(&read), client(&admin));
    for api in [&submit, &read, &admin] {
        wait_for_definition(&api.client).await;
    }

    submit.post_event(&id, "pay", json!({ "amount": 1 })).await.expect_status(202);
    submit.execution(&id).await;
    read.execution(&id).await;
    read.post_event(&id, "pay", json!({ "amount": 1 })).await.expect_problem(403);
    for api in [&submit, &read] {
        api.client.post_raw("/v1/definitions", "application/yaml", ORDER).await.expect_problem(403);
    }
    admin.apply(ORDER).await;
    admin.execution_until(&id, |seen| seen["state"] == "paid").await;
}

async fn a_revoked_key_is_useless(mode: FleetMode) {
    let world = start_world(mode).await;
    let key = create_key(&world.fleet, "gone", "default", "admin");
    create_key(&world.fleet, "stays", "default", "admin");
    let client = world.api.client.with_key(&key);
    keys_are_required(&world).await;
    wait_for_definition(&client).await;
    assert!(world.fleet.run_cli(["keys", "revoke", "gone"]).status.success());
    eventually(SOON, || async {
        let reply = send_request(client.request(Method::GET, "/v1/executions")).await;
        if reply.status == 401 { Ok(()) } else { Err(reply) }
    })
    .await;
}

async fn keys_rotate_with_overlap(mode: FleetMode) {
    let world = start_world(mode).await;
    let bare = world.fleet.run_cli(["keys", "create", "me"]);
    let message = String::from_utf8_lossy(&bare.stderr).into_owned();
    assert!(
        !bare.status.success() && message.contains("--role") && message.contains("operator"),
        "{message}"
    );
    let once = ["--json", "keys", "create", "compose", "--role", "admin", "--once"];
    let made: Value =
        serde_json::from_slice(&world.fleet.run_cli(once).stdout).expect("JSON on standard output");
    let again = world.fleet.run_cli(once);
    assert!(again.status.success(), "{again:?}");
    assert!(!String::from_utf8_lossy(&again.stdout).contains("ms_"), "{again:?}");
    let rotated = world.fleet.run_cli(["--json", "keys", "rotate", "compose", "--overlap", "1h"]);
    let rotated: Value = serde_json::from_slice(&rotated.stdout).expect("JSON on standard output");
    keys_are_required(&world).await;
    for key in [&made, &rotated] {
        let client = world.api.client.with_key(&text_field(key, "key"));
        wait_for_definition(&client).await;
        client.get("/v1/executions").await.expect_status(200);
    }
    let listed = world.fleet.run_cli(["--json", "keys", "list"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON on standard output");
    let expiring = page_items(&listed).iter().filter(|key| key["expires_at"].is_string()).count();
    assert_eq!((page_items(&listed).len(), expiring), (2, 1), "{listed}");
}

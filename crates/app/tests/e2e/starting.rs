//! Definitions and executions: storing, versions, starting, starting with events.

use millstream_testkit::FleetMode;
use serde_json::json;

use crate::api::{page_items, text_field};
use crate::definitions::{COUNTER, ORDER};
use crate::world::start_world;

both_modes!(
    order_example_completes,
    changed_definition_gets_new_version,
    invalid_definition_lists_every_problem,
    execution_keeps_its_definition_version,
    start_events_are_applied_in_order,
    repeated_start_is_idempotent,
    batch_start_starts_several_executions,
);

async fn order_example_completes(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;

    let reply =
        api.client.post("/v1/executions", &json!({ "definition": "order", "input": { "total": 10 } })).await;
    let execution = reply.expect_status(201);
    let id = text_field(&execution, "execution_id");
    assert_eq!(reply.header("location"), Some(format!("/v1/executions/{id}").as_str()));
    assert_eq!(execution["state"], "received");
    assert_eq!(execution["status"], "active");
    assert_eq!(execution["seq"], 1);
    assert_eq!(execution["version"], 1);
    assert_eq!(execution["context"], json!({ "total": 10, "paid": 0 }));

    let reply = api.post_event(&id, "pay", json!({ "amount": 12 })).await;
    let accepted = reply.expect_status(202);
    let event = text_field(&accepted, "event_id");
    assert_eq!(reply.header("location"), Some(format!("/v1/events/{event}").as_str()));
    assert_eq!(accepted["execution_id"], id.as_str());

    let paid = api.settled_event(&event).await;
    assert_eq!(paid["status"], "completed", "{paid}");
    assert_eq!((&paid["from_state"], &paid["to_state"]), (&json!("received"), &json!("paid")));
    assert_eq!((&paid["seq"], &paid["name"]), (&json!(2), &json!("pay")));
    assert_eq!(paid["payload"], json!({ "amount": 12 }));
    assert!(paid["worker_id"].is_string() && paid["completed_at"].is_string(), "{paid}");

    let shipped = api.send_and_settle(&id, "ship", json!(null)).await;
    assert_eq!(shipped["status"], "completed", "{shipped}");
    let ended = api.execution(&id).await;
    assert_eq!((&ended["state"], &ended["status"]), (&json!("shipped"), &json!("completed")));
    assert_eq!(ended["context"], json!({ "total": 10, "paid": 12 }));
    assert_eq!(api.transition_names(&id).await, ["millstream.start", "pay", "ship"]);
}

async fn changed_definition_gets_new_version(mode: FleetMode) {
    let world = start_world(mode).await;
    let post = |text: String| world.api.client.post_raw("/v1/definitions", "application/yaml", text);
    let first = post(ORDER.into()).await.expect_status(201);
    assert_eq!((&first["name"], &first["version"]), (&json!("order"), &json!(1)));
    assert!(first["checksum"].is_string() && first["created_at"].is_string(), "{first}");
    assert_eq!(post(ORDER.into()).await.expect_status(200)["version"], 1);

    let changed = ORDER.replace("total: 0, paid: 0", "total: 1, paid: 0");
    assert_eq!(post(changed).await.expect_status(201)["version"], 2);
    // Equal to the first but not to the latest: a version of its own.
    let third = post(ORDER.into()).await.expect_status(201);
    assert_eq!((&third["version"], &third["checksum"]), (&json!(3), &first["checksum"]));

    let as_json = json!({
        "name": "tiny", "initial": "a",
        "states": { "a": { "on": { "go": { "to": "b" } } }, "b": { "final": true } },
    });
    world.api.client.post("/v1/definitions", &as_json).await.expect_status(201);
    let listed = page_items(&world.api.client.get("/v1/definitions").await.expect_status(200));
    let mut names: Vec<_> = listed.iter().map(|definition| text_field(definition, "name")).collect();
    names.sort();
    assert_eq!(names, ["order", "tiny"]);
    assert_eq!(world.api.client.get("/v1/definitions/order").await.expect_status(200)["version"], 3);
    assert_eq!(
        world.api.client.get("/v1/definitions/order/versions/2").await.expect_status(200)["version"],
        2
    );
    world.api.client.get("/v1/definitions/order/versions/9").await.expect_problem(404);
    world.api.client.get("/v1/definitions/missing").await.expect_problem(404);
}

async fn invalid_definition_lists_every_problem(mode: FleetMode) {
    let world = start_world(mode).await;
    let wrong = ORDER
        .replace("{ to: shipped }", "{ to: shiped }")
        .replace("paid: event.payload.amount", "paid: event.(");
    let reply = world.api.client.post_raw("/v1/definitions", "application/yaml", wrong).await;
    let problem = reply.expect_problem(422);
    let problems = problem["problems"].as_array().expect("a list of problems");
    let typo = problems.iter().find(|one| one["path"] == "states.paid.on.ship.to");
    let typo = typo.unwrap_or_else(|| panic!("the misspelt state is not named: {problem}"));
    assert!(text_field(typo, "message").contains("shipped"), "suggests the right name: {typo}");
    assert!(problems.len() >= 2, "the expression that does not compile is named too: {problem}");
    world.api.client.get("/v1/definitions/order").await.expect_problem(404);
}

async fn execution_keeps_its_definition_version(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let old = api.start("order", json!({})).await;
    api.apply(&ORDER.replace("{ to: shipped }", "{ to: sent }").replace("  shipped:", "  sent:")).await;
    let new = api.start("order", json!({})).await;
    let pinned = json!({ "definition": "order", "version": 1 });
    let pinned =
        text_field(&api.client.post("/v1/executions", &pinned).await.expect_status(201), "execution_id");
    for (execution, end) in [(old, "shipped"), (new, "sent"), (pinned, "shipped")] {
        api.send(&execution, "pay", json!({ "amount": 1 })).await;
        api.send_and_settle(&execution, "ship", json!({})).await;
        assert_eq!(api.execution(&execution).await["state"], end);
    }
    let unknown = json!({ "definition": "order", "version": 7 });
    api.client.post("/v1/executions", &unknown).await.expect_problem(404);
}

async fn start_events_are_applied_in_order(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(COUNTER).await;
    let events: Vec<_> = (0..20).map(|i| json!({ "name": "add", "payload": { "i": i } })).collect();
    let body = json!({ "definition": "counter", "execution_id": "with-events", "events": events });
    api.client.post("/v1/executions", &body).await.expect_status(201);
    let counted = api.execution_until("with-events", |seen| seen["context"]["n"] == 20).await;
    assert_eq!(counted["context"]["seen"], json!((0..20).collect::<Vec<_>>()));

    // One event that the definition does not know refuses the whole start.
    let body =
        json!({ "definition": "counter", "execution_id": "never", "events": [{ "name": "nonsense" }] });
    api.client.post("/v1/executions", &body).await.expect_problem(422);
    api.client.get("/v1/executions/never").await.expect_problem(404);
}

async fn repeated_start_is_idempotent(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let body = json!({ "definition": "order", "execution_id": "o-1", "input": { "total": 5 } });
    api.client.post("/v1/executions", &body).await.expect_status(201);
    api.send_and_settle("o-1", "pay", json!({ "amount": 5 })).await;
    let again = api.client.post("/v1/executions", &body).await.expect_status(200);
    assert_eq!((&again["execution_id"], &again["state"]), (&json!("o-1"), &json!("paid")), "as it is now");

    let other = json!({ "definition": "order", "execution_id": "o-1", "input": { "total": 6 } });
    api.client.post("/v1/executions", &other).await.expect_problem(409);
    let bad = json!({ "definition": "order", "execution_id": "no spaces" });
    api.client.post("/v1/executions", &bad).await.expect_problem(422);
    let missing = json!({ "definition": "missing" });
    api.client.post("/v1/executions", &missing).await.expect_problem(404);
}

async fn batch_start_starts_several_executions(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(ORDER).await;
    let body = json!([
        { "definition": "order", "execution_id": "a" },
        { "definition": "missing", "execution_id": "b" },
        { "definition": "order", "execution_id": "c", "input": { "total": 3 } },
    ]);
    let reply = api.client.post("/v1/executions", &body).await;
    assert!((200..300).contains(&reply.status), "{} {}", reply.status, reply.body);
    let verdicts = page_items(&reply.json());
    assert_eq!(verdicts[0]["execution_id"], "a", "{}", reply.body);
    assert_eq!(verdicts[1]["problem"]["status"], 404, "{}", reply.body);
    assert_eq!(verdicts[2]["context"]["total"], 3, "{}", reply.body);
    api.execution("c").await;
}

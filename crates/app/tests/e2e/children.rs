//! `start`: children, their ends, and their fate when the parent ends first.

use millstream_testkit::FleetMode;
use serde_json::{Value, json};

use crate::api::{E2eApi, text_field};
use crate::dying::{begin_and_die_at, start_without_workers};
use crate::world::start_world;

both_modes!(
    child_end_is_action_outcome,
    parent_close_policy_ends_or_keeps_child,
    child_started_during_parent_end_ends,
    retried_start_begins_another_child,
    unstartable_child_waits_for_person,
    slow_child_times_out_and_is_cancelled,
    crashed_start_begins_no_second_child,
    child_failed_before_await_is_reported,
    child_cancelled_before_await_is_reported,
    retry_finds_child_completed_after_timeout,
);

const PARENT: &str = r#"
name: NAME
initial: a
context: { n: 1 }
states:
  a: { on: { go: { to: b, do: [raise] } } }
  b:
    on:
      grown: { to: proud, set: { got: event.payload.result } }
      lost: { to: sad, set: { why: event.payload.error } }
      leave: { to: gone }
  proud: { final: true }
  gone: { final: true }
  sad: { final: failed }
actions:
  raise: { start: { definition: child, input: { n: context.n }MORE }, on_success: grownREST }
"#;

const CHILD: &str = r"
name: child
initial: young
context: { n: 0 }
states:
  young: { on: { grow: { to: old, set: { n: context.n + 1 } }, die: { to: dead } } }
  old: { final: true }
  dead: { final: failed }
";

const NAMED: &str = r#", execution_id: "kid-of-${context.n}""#;
const RAISE: &str = r#"  raise: { start: { definition: child, execution_id: "kid-of-${context.n}", input: { n: context.n } } }"#;
const HANDLED: &str = ", on_failure: lost";

/// A parent whose `start` says more, and whose action does.
fn parent_definition(name: &str, more: &str, rest: &str) -> String {
    PARENT.replace("NAME", name).replace("MORE", more).replace("REST", rest)
}

/// The child of a parent, once its action awaits it.
async fn child_of(api: &E2eApi, parent: &str) -> Value {
    api.action_in(parent, "raise", "awaiting").await;
    let children = api.all_pages("/v1/executions?definition=child").await;
    let n = &api.execution(parent).await["context"]["n"];
    let mine: Vec<_> = children.into_iter().filter(|child| child["context"]["n"] == *n).collect();
    assert_eq!(mine.len(), 1, "{mine:?}");
    mine[0].clone()
}

async fn child_end_is_action_outcome(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(CHILD).await;
    api.apply(&parent_definition("nameless", "", HANDLED)).await;
    api.apply(&parent_definition("naming", NAMED, HANDLED)).await;
    api.start_with_events("nameless", "p-1", json!({ "n": 10 }), &["go"]).await;
    let child = text_field(&child_of(api, "p-1").await, "execution_id");
    assert!(child.starts_with("child-"), "made from the action's key: {child}");
    api.send_and_settle(&child, "grow", json!({})).await;
    let proud = api.execution_in("p-1", "completed").await;
    let told =
        json!({ "execution_id": child, "status": "completed", "state": "old", "context": { "n": 11 } });
    assert_eq!(proud["context"]["got"], told, "{proud}");

    api.start_with_events("naming", "p-2", json!({ "n": 20 }), &["go"]).await;
    assert_eq!(child_of(api, "p-2").await["execution_id"], "kid-of-20");
    api.send_and_settle("kid-of-20", "die", json!({})).await;
    let sad = api.execution_in("p-2", "failed").await;
    let why = &sad["context"]["why"];
    assert_eq!(why["class"], "child", "{sad}");
    let message = text_field(why, "message");
    assert!(message.contains("kid-of-20") && message.contains("failed in state dead"), "{message}");

    api.start_with_events("naming", "p-3", json!({ "n": 30 }), &["go"]).await;
    child_of(api, "p-3").await;
    api.client
        .post("/v1/executions/kid-of-30/cancel", &json!({ "reason": "enough" }))
        .await
        .expect_status(202);
    let sad = api.execution_in("p-3", "failed").await;
    let message = text_field(&sad["context"]["why"], "message");
    assert!(message.contains("cancelled") && message.contains("enough"), "{message}");
}

async fn parent_close_policy_ends_or_keeps_child(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(CHILD).await;
    api.apply(&parent_definition("strict", NAMED, "")).await;
    api.apply(&parent_definition("lenient", &format!("{NAMED}, parent_close: abandon"), "")).await;
    let starts = [("strict", "p-1", 1), ("strict", "p-2", 2), ("lenient", "p-3", 3), ("lenient", "p-4", 4)];
    for (definition, id, n) in starts {
        api.start_with_events(definition, id, json!({ "n": n }), &["go"]).await;
        child_of(api, id).await;
    }
    for completed in ["p-1", "p-3"] {
        assert_eq!(api.send_and_settle(completed, "leave", json!({})).await["status"], "completed");
    }
    for cancelled in ["p-2", "p-4"] {
        let path = format!("/v1/executions/{cancelled}/cancel");
        api.client.post(&path, &json!({})).await.expect_status(202);
    }
    for (kid, parent) in [("kid-of-1", "p-1"), ("kid-of-2", "p-2")] {
        api.execution_in(kid, "cancelled").await;
        let last = api.list(kid, "history").await.pop().unwrap();
        assert!(text_field(&last["payload"], "reason").contains(parent), "{last}");
    }
    api.execution_in("p-4", "cancelled").await;
    api.action_in("p-4", "raise", "cancelled").await;
    // Cancelled children could not handle `grow` any more.
    for kid in ["kid-of-3", "kid-of-4"] {
        assert_eq!(api.send_and_settle(kid, "grow", json!({})).await["status"], "completed");
        assert_eq!(api.execution_in(kid, "completed").await["state"], "old");
    }
    assert_eq!(api.execution("p-3").await["state"], "gone", "nothing happens after the end");
}

/// The end of the parent and the `start` are one transition: whichever of the two is performed first, the child
/// must not be left behind.
async fn child_started_during_parent_end_ends(mode: FleetMode) {
    const PARENTS: usize = 20;
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(CHILD).await;
    let hasty = PARENT.split("  b:").next().unwrap().replace("NAME", "hasty").replace("to: b,", "to: gone,");
    api.apply(&format!("{hasty}  gone: {{ final: true }}\nactions:\n{RAISE}")).await;
    for n in 0..PARENTS {
        api.start_with_events("hasty", &format!("p-{n}"), json!({ "n": n }), &["go"]).await;
    }
    for n in 0..PARENTS {
        api.execution_in(&format!("p-{n}"), "completed").await;
        api.action_in(&format!("p-{n}"), "raise", "failed").await;
        api.execution_in(&format!("kid-of-{n}"), "cancelled").await;
    }
}

async fn retried_start_begins_another_child(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(CHILD).await;
    api.apply(&parent_definition("parent", NAMED, "")).await;
    api.start_with_events("parent", "p-1", json!({}), &["go"]).await;
    child_of(api, "p-1").await;
    api.send_and_settle("kid-of-1", "die", json!({})).await;
    let incident = api.open_incident("p-1").await;
    assert_eq!((&incident["class"], &incident["attempts"]), (&json!("child"), &json!(1)), "{incident}");
    api.resolve(&incident, "retry", json!({})).await;
    api.action_in("p-1", "raise", "awaiting").await;
    api.send_and_settle("kid-of-1.2", "grow", json!({})).await;
    let proud = api.execution_in("p-1", "completed").await;
    assert_eq!(proud["context"]["got"]["execution_id"], "kid-of-1.2", "{proud}");
    assert_eq!(api.all_pages("/v1/executions?definition=child").await.len(), 2);
}

async fn unstartable_child_waits_for_person(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(&parent_definition("parent", NAMED, "")).await;
    api.start_with_events("parent", "p-1", json!({}), &["go"]).await;
    let unknown = api.open_incident("p-1").await;
    assert_eq!(unknown["class"], "target", "{unknown}");
    let reason = text_field(&unknown, "reason");
    assert!(reason.contains(r#"start.definition: unknown definition "child""#), "{reason}");

    api.apply(CHILD).await;
    api.start_with_events("child", "kid-of-2", json!({}), &[]).await;
    api.start_with_events("parent", "p-2", json!({ "n": 2 }), &["go"]).await;
    let taken = text_field(&api.open_incident("p-2").await, "reason");
    assert!(taken.contains("kid-of-2 exists and is not a child of this action"), "{taken}");

    api.resolve(&unknown, "retry", json!({})).await;
    api.action_in("p-1", "raise", "awaiting").await;
    api.send_and_settle("kid-of-1", "grow", json!({})).await;
    api.execution_in("p-1", "completed").await;
    assert_eq!(api.execution("kid-of-2").await["status"], "active", "it has no parent");
}

async fn slow_child_times_out_and_is_cancelled(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(CHILD).await;
    let hasty =
        parent_definition("hasty", NAMED, ", on_failure: lost, timeouts: { schedule_to_close: 600ms }");
    api.apply(&hasty).await;
    api.start_with_events("hasty", "p-1", json!({}), &["go"]).await;
    let sad = api.execution_in("p-1", "failed").await;
    let why = &sad["context"]["why"];
    assert_eq!(why["class"], "schedule", "{sad}");
    assert!(text_field(why, "message").contains("600ms"), "{why}");
    api.execution_in("kid-of-1", "cancelled").await;
}

async fn crashed_start_begins_no_second_child(mode: FleetMode) {
    let mut world = start_without_workers(mode).await;
    world.api.apply(CHILD).await;
    world.api.apply(&parent_definition("parent", "", HANDLED)).await;
    begin_and_die_at(&mut world, "worker.before-settle", "parent", "p-1").await;
    let api = &world.api;
    let child = text_field(&child_of(api, "p-1").await, "execution_id");
    let raise = api.latest_action("p-1", "raise").await.expect("the action");
    assert!(raise["attempts"].as_i64().unwrap() >= 2, "the crash did bite: {raise}");
    api.send_and_settle(&child, "grow", json!({})).await;
    api.execution_in("p-1", "completed").await;
    assert_eq!(api.all_pages("/v1/executions?definition=child").await.len(), 1);
}

/// The worker that started it is dead and its lease lasts for a while: meanwhile the child fails.
async fn child_failed_before_await_is_reported(mode: FleetMode) {
    let mut world = start_without_workers(mode).await;
    world.api.apply(&format!("{CHILD}timeout: 10ms\n")).await;
    world.api.apply(&parent_definition("parent", "", HANDLED)).await;
    begin_and_die_at(&mut world, "worker.before-settle", "parent", "p-1").await;
    let api = &world.api;
    let sad = api.execution_in("p-1", "failed").await;
    assert_eq!(sad["context"]["why"]["class"], "child", "{sad}");
    let children = api.all_pages("/v1/executions?definition=child").await;
    assert_eq!(children.len(), 1, "the first one was the one: {children:?}");
}

async fn child_cancelled_before_await_is_reported(mode: FleetMode) {
    let mut world = start_without_workers(mode).await;
    world.api.apply(CHILD).await;
    world.api.apply(&parent_definition("parent", NAMED, HANDLED)).await;
    begin_and_die_at(&mut world, "worker.before-settle", "parent", "p-1").await;
    let api = &world.api;
    api.client
        .post("/v1/executions/kid-of-1/cancel", &json!({ "reason": "enough" }))
        .await
        .expect_status(202);
    let sad = api.execution_in("p-1", "failed").await;
    assert!(text_field(&sad["context"]["why"], "message").contains("enough"), "{sad}");
    assert_eq!(api.all_pages("/v1/executions?definition=child").await.len(), 1);
}

async fn retry_finds_child_completed_after_timeout(mode: FleetMode) {
    let world = start_world(mode).await;
    let api = &world.api;
    api.apply(CHILD).await;
    let more = format!("{NAMED}, parent_close: abandon");
    api.apply(&parent_definition("hasty", &more, ", timeouts: { schedule_to_close: 600ms }")).await;
    api.start_with_events("hasty", "p-1", json!({}), &["go"]).await;
    let incident = api.open_incident("p-1").await;
    assert_eq!(incident["class"], "schedule", "{incident}");
    api.send_and_settle("kid-of-1", "grow", json!({})).await;
    api.action_in("kid-of-1", "millstream.return", "succeeded").await;
    api.resolve(&incident, "retry", json!({})).await;
    let proud = api.execution_in("p-1", "completed").await;
    let got = &proud["context"]["got"];
    assert_eq!((&got["execution_id"], &got["context"]["n"]), (&json!("kid-of-1"), &json!(2)), "{proud}");
}

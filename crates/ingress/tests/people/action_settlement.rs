//! The end of an item settles the action of an execution that waits for it.

use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{DefinitionRef, ItemId, Name, TenantId, WorkerId};
use millstream_model::raw::RawJson;
use millstream_people::assignment::{ItemWaiter, NewQueueItem};
use millstream_store::action_store::{SettleOutcome, Settlement};
use millstream_store::execution_store::LeaseGrant;
use serde_json::{Value, json};

use crate::bench::{Bench, yaml};

// Any action that the engine itself performs: the waiting one is made by hand.
const DESK: &str = "
name: desk
initial: new
context: {}
states:
  new: { on: { go: { to: asked, do: [ask] } } }
  asked: { on: { answered: { to: done }, given_up: { to: lost }, late: { to: told } } }
  done: { final: true }
  lost: { final: true }
  told: { final: true }
actions:
  ask: { device: { kind: ask }, on_success: answered, on_failure: given_up }
";

/// An execution whose action awaits the item `i-1` of the queue `q`.
async fn waiting(config: Value) -> Bench {
    let bench = Bench::office(config, 0).await;
    let defined = bench.send(yaml("/v1/definitions", DESK)).await;
    assert!(defined.status.is_success(), "{defined:?}");
    let body = json!({"definition": "desk", "execution_id": "s-1"});
    assert_eq!(bench.post("/v1/executions", &body).await.status, 201);
    bench.post("/v1/executions/s-1/events", &json!({"name": "go"})).await;
    bench.decide("s-1").await;
    let worker = WorkerId::parse("bench").unwrap();
    let queues = [ActionQueue::engine_of(&TenantId::default_tenant())].into();
    let grant = LeaseGrant { slots: 9, ttl: Duration::from_secs(60), queues };
    let leased = bench.stores.actions.lease(&worker, &grant, bench.clock.now()).await.unwrap();
    let action = leased.into_iter().next().unwrap();
    let waiter = ItemWaiter {
        action: action.lease.key.clone(),
        epoch: action.lease.epoch,
        event_id: action.event_id,
        definition: DefinitionRef { name: Name::parse("desk").unwrap(), version: 1 },
        attempt: 1,
        revision: 0,
        traceparent: None,
    };
    let awaiting = Settlement {
        lease: action.lease,
        event_id: action.event_id,
        outcome: SettleOutcome::Awaiting { until: None },
    };
    bench.stores.actions.settle_actions(&worker, &[awaiting], &grant, bench.clock.now()).await.unwrap();
    let item = NewQueueItem::with_defaults(ItemId::parse("i-1").unwrap(), RawJson::null());
    let item = NewQueueItem { waiter: Some(waiter), ..item };
    let queue = Name::parse("q").unwrap();
    let tenant = TenantId::default_tenant();
    bench.stores.items.import_items(&tenant, &queue, &[item], bench.clock.now()).await.unwrap();
    bench
}

async fn state(bench: &Bench) -> Value {
    bench.decide("s-1").await;
    bench.get("/v1/executions/s-1").await.json()["state"].clone()
}

#[tokio::test]
async fn completed_item_settles_its_action() {
    let bench = waiting(json!({})).await;
    assert_eq!(bench.item("i-1").await["execution_id"], "s-1");
    bench.worked("ann", json!("yes")).await;
    assert_eq!(state(&bench).await, "done");
}

#[tokio::test]
async fn withdrawn_item_fails_its_action() {
    let bench = waiting(json!({})).await;
    bench.post("/v1/items/i-1/withdraw", &json!({})).await;
    assert_eq!(state(&bench).await, "lost");
}

#[tokio::test]
async fn escalated_item_posts_queue_event() {
    let config = json!({"people": ["ann"], "escalate": {"event": "late"}});
    let bench = waiting(config).await;
    let id = bench.begun("ann").await;
    // No eligible person is left.
    bench.done(&id, "skip", json!({"person": "ann"})).await;
    assert_eq!(bench.item("i-1").await["status"], "escalated");
    assert_eq!(state(&bench).await, "told");
}

//! The end of a run settles the action of an execution that waits for it.

use std::time::Duration;

use millstream_devices::claim::{RunSpec, WaitingAction};
use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, Name, RunId, RunKey, Seq, TenantId, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_store::action_store::{SettleOutcome, Settlement};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::run_store::{ExpectedVersion, RunWrite};
use serde_json::json;

use crate::bench::{Bench, key, yaml};
use crate::device_fixture::by;

const SHOP: &str = "
name: shop
initial: new
context: {}
states:
  new: { on: { go: { to: filming, do: [film] } } }
  filming: { on: { filmed: { to: done }, broken: { to: lost } } }
  done: { final: true }
  lost: { final: true }
actions:
  film: { device: { kind: film }, on_success: filmed, on_failure: broken }
";

/// An execution whose action awaits the run `r-1`, which is still unassigned.
async fn waiting() -> Bench {
    let bench = Bench::with_devices(&["one"]).await;
    let defined = bench.send(yaml("/v1/definitions", SHOP)).await;
    assert!(defined.status.is_success(), "{defined:?}");
    let body = json!({"definition": "shop", "execution_id": "s-1"});
    assert_eq!(bench.post("/v1/executions", &body).await.status, 201);
    bench.post("/v1/executions/s-1/events", &json!({"name": "go"})).await;
    bench.decide("s-1").await;
    let worker = WorkerId::parse("bench").unwrap();
    let queues = [ActionQueue::engine_of(&TenantId::default_tenant())].into();
    let grant = LeaseGrant { slots: 9, ttl: Duration::from_secs(60), queues };
    let leased = bench.stores.actions.lease(&worker, &grant, bench.clock.now()).await.unwrap();
    let action = leased.into_iter().find(|action| action.lease.key.action == film().action).unwrap();
    let waiting =
        WaitingAction { key: action.lease.key.clone(), epoch: action.lease.epoch, event_id: action.event_id };
    let awaiting = Settlement {
        lease: action.lease,
        event_id: action.event_id,
        outcome: SettleOutcome::Awaiting { until: None },
    };
    bench.stores.actions.settle_actions(&worker, &[awaiting], &grant, bench.clock.now()).await.unwrap();
    let spec = RunSpec {
        waiting: Some(waiting),
        assign: millstream_devices::claim::RunAssignMode::Manual,
        ..RunSpec::with_defaults(Name::parse("film").unwrap(), RawJson::null())
    };
    let change = millstream_devices::claim::create_run(spec, None, bench.clock.now());
    let write = RunWrite {
        key: RunKey { tenant: TenantId::default_tenant(), run: RunId::parse("r-1").unwrap() },
        expected: ExpectedVersion::Nothing,
        run: change.run,
        log: change.log,
        unheard: Vec::new(),
        settlement: None,
    };
    bench.stores.runs.commit_runs(&[write.into()], bench.clock.now()).await.unwrap();
    bench.acted("r-1", "claim", json!({"device": "one"})).await;
    bench.acted("r-1", "start", by("one", 1)).await;
    bench
}

fn film() -> ActionKey {
    ActionKey { execution: key("s-1"), seq: Seq(2), action: Name::parse("film").unwrap() }
}

async fn state(bench: &Bench) -> serde_json::Value {
    bench.decide("s-1").await;
    bench.get("/v1/executions/s-1").await.json()["state"].clone()
}

#[tokio::test]
async fn completed_run_settles_its_action() {
    let bench = waiting().await;
    let run = bench.found("r-1").await;
    assert_eq!(run["waiting"]["execution_id"], "s-1");
    let listed = bench.get("/v1/runs?execution_id=s-1").await.json();
    assert_eq!(listed["items"][0]["run_id"], "r-1");
    bench.acted("r-1", "complete", json!({"device": "one", "token": 1, "output": {"url": "x"}})).await;
    let actions = bench.get("/v1/executions/s-1/actions").await.json();
    let action = &actions["items"][0];
    assert_eq!(action["status"], ActionStatus::Succeeded.as_str());
    assert_eq!(action["result"], json!({"device": "one", "output": {"url": "x"}}));
    assert_eq!(state(&bench).await, "done");
}

#[tokio::test]
async fn failed_run_fails_its_action() {
    for (verb, body, class) in [
        ("fail", json!({"device": "one", "token": 1, "message": "no"}), "device"),
        ("cancel", json!({"reason": "enough"}), "cancelled"),
    ] {
        let bench = waiting().await;
        bench.acted("r-1", verb, body).await;
        let actions = bench.get("/v1/executions/s-1/actions").await.json();
        assert_eq!(actions["items"][0]["error"]["class"], class, "{actions:#}");
        assert_eq!(state(&bench).await, "lost");
        // It belongs to the execution, which was notified.
        let problem = bench.act("r-1", "retry", json!({})).await.problem(409, "conflict");
        assert!(problem["detail"].as_str().unwrap().contains("s-1"), "{problem}");
    }
}

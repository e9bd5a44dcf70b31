//! Quotas at the worker: children end at a depth and wait for their rate, attempts end at a time.

use millstream_core::id::{Name, TenantId};
use millstream_core::quota::{QuotaName, QuotaSet, QuotaSettings, QuotaValue};
use millstream_core::status::EventStatus;
use millstream_store::views::{ExecutionFilter, ExecutionView};
use millstream_testkit::Sink;
use millstream_testkit::eventually;
use millstream_testkit::eventually::PATIENCE;
use millstream_testkit::sink::Answer;
use millstream_worker::WorkerOptions;

use crate::bench::Bench;

/// Starts itself as soon as it is there.
const ENDLESS: &str = r#"
name: endless
initial: new
states:
  new: { on: { go: { to: parent, do: [again] } }, after: [ { in: 1ms, send: go } ] }
  parent: { on: { refused: { to: refused } } }
  refused: {}
actions:
  again: { start: { definition: endless }, on_failure: refused }
"#;

fn within(bench: &Bench, name: QuotaName, most: u64) -> WorkerOptions {
    let every_tenant = QuotaSet::default().with(name, QuotaValue::AtMost(most));
    WorkerOptions { quotas: QuotaSettings { every_tenant, ..QuotaSettings::default() }, ..bench.options() }
}

async fn executions(bench: &Bench, state: Option<&str>) -> Vec<ExecutionView> {
    let state = state.map(|state| Name::parse(state).unwrap());
    let filter = ExecutionFilter { definition: None, state, status: None };
    let views = &bench.stores.execution_views;
    views.list_executions(&TenantId::default_tenant(), &filter, None, 100).await.unwrap()
}

#[tokio::test]
async fn a_definition_that_starts_itself_ends_at_its_depth() {
    let bench = Bench::new();
    bench.define(ENDLESS).await;
    let _worker = bench.worker_with(within(&bench, QuotaName::ChildDepth, 3));
    bench.start("endless", "root").await;
    let deepest = eventually(PATIENCE, || async {
        executions(&bench, Some("refused")).await.pop().ok_or("nothing was refused")
    })
    .await;
    assert_eq!(executions(&bench, None).await.len(), 4, "the root and three generations");
    let history = bench.history(&deepest.execution).await;
    let told = history.iter().find(|entry| entry.transition.name.as_str() == "refused").unwrap();
    let payload = told.payload.as_str();
    assert!(payload.contains(r#""class":"quota""#) && payload.contains("child_depth = 3"), "{payload}");
}

#[tokio::test]
async fn children_beyond_the_rate_wait_and_are_started_later() {
    let bench = Bench::new();
    bench.define(ENDLESS).await;
    let mut options = within(&bench, QuotaName::ChildDepth, 4);
    let every_tenant = options.quotas.every_tenant.clone();
    options.quotas.every_tenant = every_tenant.with(QuotaName::ChildrenPerSecond, QuotaValue::AtMost(2));
    let _worker = bench.worker_with(options);
    bench.start("endless", "root").await;
    eventually(PATIENCE, || async {
        executions(&bench, Some("refused")).await.pop().ok_or("nothing was refused")
    })
    .await;
    assert_eq!(executions(&bench, None).await.len(), 5, "none was lost to the rate");
}

#[tokio::test]
async fn an_attempt_of_a_stored_version_ends_at_the_quota() {
    let (bench, sink) = (Bench::new(), Sink::start().await);
    sink.script("/tar", [Answer::Hold(200)]);
    let definition = r#"
name: patient
initial: a
states: { a: { on: { go: { do: [act] }, late: { to: b } } }, b: { final: true } }
actions:
  act: { http: { method: POST, url: "URL" }, timeout: 36500d, retry: { attempts: 1 }, on_failure: late }
"#;
    bench.define(&definition.replace("URL", &sink.url("/tar"))).await;
    let _worker = bench.worker_with(within(&bench, QuotaName::MaxActionTimeout, 50));
    let key = bench.start("patient", "a").await;
    let go = bench.send(&key, "go", "{}").await;
    bench.until_event(go, EventStatus::Completed).await;
    bench.until_state(&key, "b").await;
}

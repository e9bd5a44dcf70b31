//! From a committed transition to a settled action: graphs, retries, failures, slots.

use std::time::Duration;

use millstream_model::status::{ActionStatus, EventStatus, ExecutionStatus};
use millstream_store::intervention::{DecisionRecord, RetryVerdict};
use millstream_testkit::TestSink;
use millstream_testkit::sink::SinkAnswer;
use serde_json::json;

use crate::bench::WorkerBench;
use crate::faulty::{self, FaultyCall, ServiceFault};

fn order(sink: &TestSink) -> String {
    format!(
        r#"
name: order
initial: open
context: {{ paid: 0 }}
states:
  open: {{ on: {{ pay: {{ to: paid, set: {{ paid: event.payload.amount }}, do: [charge, stock, receipt] }} }} }}
  paid: {{ on: {{ charged: {{ to: done }}, charge_failed: {{ to: refused }} }} }}
  done: {{ final: true }}
  refused: {{ final: failed }}
actions:
  charge:
    http: {{ method: POST, url: "{charge}", body: {{ amount: context.paid }} }}
    retry: {{ attempts: 3, backoff: 10ms, max: 50ms }}
    on_success: charged
    on_failure: charge_failed
  stock:
    noop: {{ left: 3 }}
  receipt:
    http: {{ method: POST, url: "{receipt}", body: {{ charge: results.charge.body.id, left: results.stock.left }} }}
    needs: [charge, stock]
"#,
        charge = sink.url("/charge"),
        receipt = sink.url("/receipt"),
    )
}

#[tokio::test]
async fn actions_run_in_order_with_results() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/charge", [SinkAnswer::Status(503), SinkAnswer::Json(200, json!({"id": "c-1"}))]);
    bench.define(&order(&sink)).await;
    let _workers = [bench.worker(), bench.worker()];
    let key = bench.start("order", "a").await;
    let pay = bench.send(&key, "pay", r#"{"amount":7}"#).await;
    bench.until_event(pay, EventStatus::Completed).await;
    bench.until_status(&key, ExecutionStatus::Completed).await;

    let charges = sink.calls_to("/charge");
    assert_eq!(charges.len(), 2, "one failed, one succeeded");
    assert_eq!(charges[0].json(), json!({"amount": 7}));
    for charge in &charges {
        assert_eq!(charge.header("idempotency-key"), Some("default/a/2/charge"));
        assert_eq!(charge.header("content-type"), Some("application/json"));
        assert!(charge.header("traceparent").is_some());
    }
    let tokens: Vec<_> =
        charges.iter().map(|call| call.header("millstream-fencing-token").unwrap()).collect();
    assert_eq!(tokens, ["1", "2"]);
    let receipts = sink.calls_to("/receipt");
    assert_eq!(receipts.len(), 1);
    assert_eq!(receipts[0].json(), json!({"charge": "c-1", "left": 3}));
    assert!(receipts[0].at > charges[1].at, "the receipt needs the charge");

    let actions = bench.stores.execution_views.list_actions(&key, None, 100).await.unwrap();
    assert!(actions.iter().all(|action| action.status == ActionStatus::Succeeded), "{actions:?}");
    let history = bench.history(&key).await;
    let outcome: serde_json::Value = history.last().unwrap().payload.decode().unwrap();
    assert_eq!(outcome["action"], "charge");
    assert_eq!(outcome["attempts"], 2);
    assert_eq!(outcome["result"]["status"], 200);
    bench.assert_sound(&key).await;
}

#[tokio::test]
async fn handled_failure_skips_dependent_actions() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/charge", [SinkAnswer::Status(402)]);
    bench.define(&order(&sink)).await;
    let _worker = bench.worker();
    let key = bench.start("order", "a").await;
    let pay = bench.send(&key, "pay", r#"{"amount":7}"#).await;
    bench.until_state(&key, "refused").await;
    bench.until_event(pay, EventStatus::Completed).await;
    assert_eq!(sink.calls_to("/charge").len(), 1, "402 is permanent");
    assert_eq!(sink.calls_to("/receipt").len(), 0);
    let history = bench.history(&key).await;
    let outcome: serde_json::Value = history.last().unwrap().payload.decode().unwrap();
    assert_eq!(outcome["error"]["class"], "status");
    assert_eq!(outcome["error"]["status"], 402);
}

#[tokio::test]
async fn exhausted_retries_pause_the_execution() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/call", [SinkAnswer::Status(500), SinkAnswer::Status(500), SinkAnswer::Status(200)]);
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call, after] }}, close: {{ to: closed }} }} }}
  closed: {{ final: true }}
actions:
  call: {{ http: {{ method: GET, url: "{}" }}, retry: {{ attempts: 2, backoff: 5ms }} }}
  after: {{ noop: 1, needs: [call] }}
"#,
            sink.url("/call")
        ))
        .await;
    let _worker = bench.worker();
    let key = bench.start("job", "a").await;
    let go = bench.send(&key, "go", "null").await;
    let failed = bench.until_event(go, EventStatus::Failed).await;
    assert!(failed.error.unwrap().contains("call"));
    bench.until_status(&key, ExecutionStatus::Paused).await;
    let close = bench.send(&key, "close", "null").await;
    bench.until_quiet().await;
    assert_eq!(bench.event(close).await.status, EventStatus::Pending, "paused");

    let by = DecisionRecord { actor: Some("me".to_owned()), reason: None };
    let retried = bench.stores.interventions.retry_event(&key.tenant, go, &by, bench.now()).await.unwrap();
    assert_eq!(retried, RetryVerdict::Accepted { execution: key.clone() });
    bench.ring(&key).await;
    bench.until_event(go, EventStatus::Completed).await;
    bench.until_event(close, EventStatus::Completed).await;
    assert_eq!(sink.calls_to("/call").len(), 3);
    bench.until_status(&key, ExecutionStatus::Completed).await;
    bench.assert_sound(&key).await;
}

#[tokio::test]
async fn unrenderable_input_fails_without_attempt() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call, after] }}, oops: {{ to: closed }} }} }}
  closed: {{ final: failed }}
actions:
  call: {{ http: {{ method: POST, url: "{}", body: {{ x: event.payload.missing.deep }} }}, on_failure: oops }}
  after: {{ noop: 1, needs: [call] }}
"#,
            sink.url("/call")
        ))
        .await;
    let _worker = bench.worker();
    let key = bench.start("job", "a").await;
    let go = bench.send(&key, "go", "{}").await;
    bench.until_state(&key, "closed").await;
    assert_eq!(bench.until_event(go, EventStatus::Completed).await.error, None);
    assert_eq!(sink.recorded_calls().len(), 0);
    let actions = bench.stores.execution_views.list_actions(&key, None, 100).await.unwrap();
    let statuses: Vec<_> = actions.iter().map(|action| action.status).collect();
    assert_eq!(statuses, [ActionStatus::Failed, ActionStatus::Skipped]);
}

#[tokio::test]
async fn inline_actions_settle_with_transition() {
    let bench = WorkerBench::new();
    bench
        .define(
            r#"
name: job
initial: open
states:
  open: { on: { go: { do: [say, then] }, said: { set: { said: "true" } }, finished: { to: closed } } }
  closed: { final: true }
context: { said: false }
actions:
  say: { log: "hello ${event.name}", on_success: said }
  then: { noop: results.say, needs: [say], on_success: finished }
"#,
        )
        .await;
    let _worker = bench.worker();
    let key = bench.start("job", "a").await;
    let go = bench.send(&key, "go", "null").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
    bench.until_event(go, EventStatus::Completed).await;
    assert_eq!(bench.applied(&key).await, ["go", "said", "finished"]);
    bench.until_quiet().await;
}

#[tokio::test]
async fn actions_never_exceed_slots() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/hold", [SinkAnswer::Hold(200)]);
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [call] }}, close: {{ to: closed }} }} }}
  closed: {{ final: true }}
actions:
  call: {{ http: {{ method: GET, url: "{}" }} }}
"#,
            sink.url("/hold")
        ))
        .await;
    let mut options = bench.options();
    options.action_slots = 3;
    let _worker = bench.worker_with(options);
    for n in 0..10 {
        let key = bench.start("job", &format!("x{n}")).await;
        bench.send(&key, "go", "null").await;
    }
    bench.until_quiet().await;
    millstream_testkit::eventually(Duration::from_secs(20), || async {
        let calls = sink.recorded_calls().len();
        if calls == 3 { Ok(()) } else { Err(calls) }
    })
    .await;
    sink.release_held();
    bench.until_done().await;
    assert_eq!(sink.recorded_calls().len(), 10);
}

#[tokio::test]
async fn cancellation_stops_pending_actions() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    sink.set_answers("/hold", [SinkAnswer::Hold(200)]);
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [first, second] }}, close: {{ to: closed }} }} }}
  closed: {{ final: true }}
actions:
  first: {{ http: {{ method: GET, url: "{}" }} }}
  second: {{ http: {{ method: GET, url: "{}" }}, needs: [first] }}
"#,
            sink.url("/hold"),
            sink.url("/second")
        ))
        .await;
    let _worker = bench.worker();
    let key = bench.start("job", "a").await;
    let go = bench.send(&key, "go", "null").await;
    millstream_testkit::eventually(Duration::from_secs(20), || async {
        if sink.calls_to("/hold").len() == 1 { Ok(()) } else { Err("not begun") }
    })
    .await;
    bench.send(&key, "millstream.cancel", "null").await;
    bench.until_status(&key, ExecutionStatus::Cancelled).await;
    sink.release_held();
    bench.until_event(go, EventStatus::Completed).await;
    assert_eq!(sink.calls_to("/second").len(), 0);
}

#[tokio::test]
async fn cancellation_stops_actions_of_previous_event() {
    let (bench, sink) = (WorkerBench::new(), TestSink::start().await);
    bench
        .define(&format!(
            r#"
name: job
initial: open
states:
  open: {{ on: {{ go: {{ do: [first, second] }}, close: {{ to: closed }} }} }}
  closed: {{ final: true }}
actions:
  first: {{ http: {{ method: GET, url: "{}" }} }}
  second: {{ noop: 1, needs: [first] }}
"#,
            sink.url("/first")
        ))
        .await;
    let key = bench.start("job", "a").await;
    // Both events are there before the worker looks: one commit decides them.
    let go = bench.post(&key, "go", "null").await;
    bench.send(&key, "millstream.cancel", "null").await;
    let _worker = bench.worker();
    bench.until_status(&key, ExecutionStatus::Cancelled).await;
    assert_eq!(bench.until_event(go, EventStatus::Completed).await.error, None);
    let actions = bench.stores.execution_views.list_actions(&key, None, 100).await.unwrap();
    assert!(actions.iter().all(|action| action.status == ActionStatus::Cancelled), "{actions:?}");
    bench.until_done().await;
    assert_eq!(sink.recorded_calls().len(), 0, "it was performed all the same");
}

#[tokio::test]
async fn panic_before_performing_fails_attempt() {
    let bench = WorkerBench::new();
    bench
        .define(
            r#"
name: job
initial: open
states:
  open: { on: { go: { do: [first, second] }, finished: { to: closed } } }
  closed: { final: true }
actions:
  first: { noop: 1 }
  second: { noop: results.first, needs: [first], on_success: finished, retry: { attempts: 3, backoff: 5ms } }
"#,
        )
        .await;
    let panics = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let hook = {
        let panics = panics.clone();
        faulty::on(ServiceFault::Panic, move |call| {
            matches!(call, FaultyCall::RecordInputs)
                && panics.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0
        })
    };
    // The lease is far too long to run out within the test.
    let options = millstream_worker::WorkerOptions { lease: Duration::from_secs(3600), ..bench.options() };
    let _worker = bench.worker_on(faulty::stores(&bench.stores, &hook), bench.streams.clone(), options);
    let key = bench.start("job", "a").await;
    bench.send(&key, "go", "null").await;
    bench.until_status(&key, ExecutionStatus::Completed).await;
    let history = bench.history(&key).await;
    let outcome: serde_json::Value = history.last().unwrap().payload.decode().unwrap();
    assert_eq!(outcome["attempts"], 2, "{outcome}");
}

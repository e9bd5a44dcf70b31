//! The ingress while the store or the stream fails.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::StoreError;
use millstream_stream::doorbell::Doorbell;
use millstream_testkit::eventually;
use serde_json::{Value, json};

use crate::bench::{Bench, header, key, open_options, post};
use crate::faulty_backends::{FaultyBells, FaultyLog, ReadOnlyHousekeeping};

fn faulty(prepare: impl FnOnce(&mut FaultyLog)) -> (Bench, Arc<FaultyLog>) {
    let mut kept = None;
    let bench = Bench::with(open_options(), |mut stores, streams| {
        let mut log = FaultyLog::over(stores.events.clone());
        prepare(&mut log);
        let log = Arc::new(log);
        stores.events = log.clone();
        kept = Some(log);
        (stores, streams)
    });
    (bench, kept.unwrap())
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("gone".to_owned())
}

fn contention() -> StoreError {
    StoreError::Contention("deadlock".to_owned())
}

async fn pending(bench: &Bench) -> usize {
    bench.get("/v1/events?status=pending").await.json()["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn failed_writes_end_readiness() {
    let (bench, log) = faulty(|_| {});
    bench.put_order().await;
    bench.start("o-1").await;
    let note = json!({"name": "note"});
    for _ in 0..3 {
        assert_eq!(bench.get("/readyz").await.status, 200);
        log.fail(unavailable());
        bench.post("/v1/executions/o-1/events", &note).await.problem(503, "store-unavailable");
    }
    bench.get("/readyz").await.problem(503, "store-unavailable");
    assert_eq!(bench.get("/v1/executions/o-1").await.status, 200);
    assert_eq!(bench.post("/v1/executions/o-1/events", &note).await.status, 202);
    assert_eq!(bench.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn idle_ingress_probes_store_writes() {
    let bench = Bench::with(open_options(), |mut stores, streams| {
        stores.housekeeping = Arc::new(ReadOnlyHousekeeping);
        (stores, streams)
    });
    assert_eq!(bench.get("/v1/executions").await.status, 200, "reads work");
    bench.get("/readyz").await.problem(503, "store-unavailable");
}

#[tokio::test]
async fn store_failure_accepts_no_event() {
    let (bench, log) = faulty(|_| {});
    bench.put_order().await;
    bench.start("o-1").await;
    log.fail(unavailable());
    let refused = bench.post("/v1/executions/o-1/events", &json!({"name": "note"})).await;
    refused.problem(503, "store-unavailable");
    assert_eq!(refused.header("retry-after"), "1");
    log.fail(unavailable());
    let start = json!({"definition": "order", "execution_id": "o-2"});
    bench.post("/v1/executions", &start).await.problem(503, "store-unavailable");
    log.fail(unavailable());
    let batch = json!([{"execution_id": "o-1", "name": "note"}, {"execution_id": "none", "name": "note"}]);
    bench.post("/v1/events", &batch).await.problem(503, "store-unavailable");
    log.fail(unavailable());
    bench.post("/v1/executions", &json!([start])).await.problem(503, "store-unavailable");
    assert_eq!(pending(&bench).await, 0);
    bench.get("/v1/executions/o-2").await.problem(404, "not-found");
    assert_eq!(bench.post("/v1/executions/o-1/events", &json!({"name": "note"})).await.status, 202);
}

#[tokio::test]
async fn append_contention_is_retried() {
    let (bench, log) = faulty(|_| {});
    bench.put_order().await;
    bench.start("o-1").await;
    for _ in 0..3 {
        log.fail(contention());
    }
    assert_eq!(bench.post("/v1/executions/o-1/events", &json!({"name": "note"})).await.status, 202);
    assert_eq!(pending(&bench).await, 1);
}

#[tokio::test]
async fn corrupt_event_fails_alone_in_batch() {
    let (bench, log) = faulty(|log| log.poison = Some("expire"));
    bench.put_order().await;
    bench.start("o-1").await;
    let names = ["note", "note", "expire", "note", "expire", "note", "note"];
    let items: Vec<Value> = names.iter().map(|name| json!({"execution_id": "o-1", "name": name})).collect();
    let answer = bench.post("/v1/events", &Value::Array(items)).await;
    assert_eq!(answer.status, 202);
    let statuses: Vec<_> = answer.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["problem"]["status"].as_u64())
        .collect();
    assert_eq!(statuses, [None, None, Some(500), None, Some(500), None, None]);
    assert_eq!(pending(&bench).await, 5);
    assert!(log.batches.lock().unwrap().len() < 14, "halving, not one by one");
    let alone = bench.post("/v1/executions/o-1/events", &json!({"name": "expire"})).await;
    alone.problem(500, "internal");
}

#[tokio::test]
async fn slow_commit_is_503_then_repeatable() {
    let mut kept = None;
    let mut options = open_options();
    options.commit_timeout = Duration::from_millis(100);
    let bench = Bench::with(options, |mut stores, streams| {
        let log = Arc::new(FaultyLog::over(stores.events.clone()));
        stores.events = log.clone();
        kept = Some(log);
        (stores, streams)
    });
    let log = kept.unwrap();
    bench.put_order().await;
    bench.start("o-1").await;
    log.turns.forget_permits(usize::MAX);
    let event =
        || header(post("/v1/executions/o-1/events", &json!({"name": "note"})), "idempotency-key", "k");
    let doubtful = bench.send(event()).await.problem(503, "store-unavailable");
    assert!(doubtful["detail"].as_str().unwrap().contains("Idempotency-Key"));
    log.turns.add_permits(100);
    eventually(Duration::from_secs(10), || async {
        if pending(&bench).await == 1 { Ok(()) } else { Err("the commit was cut off") }
    })
    .await;
    assert_eq!(bench.send(event()).await.status, 202);
    assert_eq!(pending(&bench).await, 1);
}

#[tokio::test]
async fn doorbells_ring_after_stream_recovers() {
    let bells = Arc::new(FaultyBells::default());
    *bells.broken.lock().unwrap() = true;
    let bench = Bench::with(open_options(), |stores, mut streams| {
        streams.bells = bells.clone();
        (stores, streams)
    });
    bench.put_order().await;
    bench.start("o-1").await;
    for _ in 0..5 {
        let answer = bench.post("/v1/executions/o-1/events", &json!({"name": "note"})).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    eventually(Duration::from_secs(10), || async {
        if *bells.failures.lock().unwrap() >= 2 { Ok(()) } else { Err("it gave up, or never tried") }
    })
    .await;
    *bells.broken.lock().unwrap() = false;
    eventually(Duration::from_secs(10), || async {
        if bells.rung.lock().unwrap().is_empty() { Err("not rung") } else { Ok(()) }
    })
    .await;
    assert_eq!(*bells.rung.lock().unwrap(), [Doorbell::Mailbox(key("o-1"))], "five events, one bell");
}

#[tokio::test]
async fn only_undecided_events_ring_doorbell() {
    let bells = Arc::new(FaultyBells::default());
    let bench = Bench::with(open_options(), |stores, mut streams| {
        streams.bells = bells.clone();
        (stores, streams)
    });
    bench.put_order().await;
    bench.start("quiet").await;
    let eventful = json!({"definition": "order", "execution_id": "eventful", "events": [{"name": "note"}]});
    bench.post("/v1/executions", &eventful).await;
    eventually(Duration::from_secs(10), || async {
        let rung = bells.rung.lock().unwrap().clone();
        if rung == [Doorbell::Mailbox(key("eventful"))] { Ok(()) } else { Err(rung) }
    })
    .await;
}

#[tokio::test]
async fn undecided_repeat_rings_doorbell() {
    let bells = Arc::new(FaultyBells::default());
    let bench = Bench::with(open_options(), |stores, mut streams| {
        streams.bells = bells.clone();
        (stores, streams)
    });
    bench.put_order().await;
    bench.start("o-1").await;
    for wanted in 1..=2 {
        let event =
            header(post("/v1/executions/o-1/events", &json!({"name": "note"})), "idempotency-key", "k");
        assert_eq!(bench.send(event).await.status, 202);
        eventually(Duration::from_secs(10), || async {
            let rung = bells.rung.lock().unwrap().len();
            if rung == wanted { Ok(()) } else { Err(rung) }
        })
        .await;
    }
}

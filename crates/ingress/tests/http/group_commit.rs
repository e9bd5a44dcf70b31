//! Group commit: many requests in one append; bounded; unaffected by clients that disconnect.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures::future::join_all;
use millstream_model::status::Role;
use millstream_testkit::eventually;
use serde_json::json;
use tower::ServiceExt;

use crate::bench::{Answer, Bench, ORDER, header, open_options, post, yaml};
use crate::faulty_backends::FaultyLog;

async fn stalled(change: impl FnOnce(&mut millstream_ingress::IngressOptions)) -> (Bench, Arc<FaultyLog>) {
    let mut kept = None;
    let mut options = open_options();
    change(&mut options);
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
    log.batches.lock().unwrap().clear();
    (bench, log)
}

fn note(app: &Router) -> tokio::task::JoinHandle<Answer> {
    let app = app.clone();
    let request = post("/v1/executions/o-1/events", &json!({"name": "note"}));
    tokio::spawn(async move { Answer::of(app.oneshot(request).await.unwrap()).await })
}

async fn batches(log: &FaultyLog, wanted: &[usize]) {
    eventually(Duration::from_secs(10), || async {
        let seen = log.batches.lock().unwrap().clone();
        if seen == wanted { Ok(()) } else { Err(seen) }
    })
    .await;
}

#[tokio::test]
async fn group_commit_collects_during_commit() {
    let (bench, log) = stalled(|_| {}).await;
    let first = note(&bench.app);
    // A single event does not wait for more.
    batches(&log, &[1]).await;
    let rest: Vec<_> = (0..40).map(|_| note(&bench.app)).collect();
    // Each request has looked up its execution and is in the queue when it yields; wait until all of them
    // are.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    log.turns.add_permits(1);
    batches(&log, &[1, 40]).await;
    log.turns.add_permits(1);
    assert_eq!(first.await.unwrap().status, 202);
    for answer in join_all(rest).await {
        assert_eq!(answer.unwrap().status, 202);
    }
}

#[tokio::test]
async fn group_commit_size_is_capped() {
    let (bench, log) = stalled(|options| options.limits.batch_items = 25).await;
    let first = note(&bench.app);
    batches(&log, &[1]).await;
    let rest: Vec<_> = (0..40).map(|_| note(&bench.app)).collect();
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    log.turns.add_permits(3);
    batches(&log, &[1, 25, 15]).await;
    for answer in join_all(rest.into_iter().chain([first])).await {
        assert_eq!(answer.unwrap().status, 202);
    }
}

#[tokio::test]
async fn full_accept_queue_is_429() {
    let (bench, log) = stalled(|options| options.limits.queue_items = 2).await;
    let first = note(&bench.app);
    batches(&log, &[1]).await;
    let others: Vec<_> = (0..10).map(|_| note(&bench.app)).collect();
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    log.turns.add_permits(10);
    let mut accepted = vec![first.await.unwrap()];
    let mut refused = Vec::new();
    for answer in join_all(others).await {
        let answer = answer.unwrap();
        if answer.status == 202 { accepted.push(answer) } else { refused.push(answer) }
    }
    assert_eq!(accepted.len(), 2, "one in the commit and one that waits for the next");
    for answer in &refused {
        answer.problem(429, "busy");
        assert_eq!(answer.header("retry-after"), "1");
    }
    let pending = bench.get("/v1/events?status=pending").await.json()["items"].as_array().unwrap().len();
    assert_eq!(pending, accepted.len());
}

#[tokio::test]
async fn accept_queue_bytes_are_limited() {
    let (bench, log) = stalled(|options| options.limits.queue_bytes = 2_000).await;
    let first = note(&bench.app);
    batches(&log, &[1]).await;
    let large = json!({"name": "note", "payload": "x".repeat(1_800)});
    bench.post("/v1/executions/o-1/events", &large).await.problem(429, "busy");
    log.turns.add_permits(10);
    assert_eq!(first.await.unwrap().status, 202);
    // Committed events have left the queue.
    let smaller = json!({"name": "note", "payload": "x".repeat(1_000)});
    assert_eq!(bench.post("/v1/executions/o-1/events", &smaller).await.status, 202);
}

#[tokio::test]
async fn disconnected_client_cancels_no_commit() {
    let (bench, log) = stalled(|_| {}).await;
    let leaver = note(&bench.app);
    batches(&log, &[1]).await;
    leaver.abort();
    assert!(leaver.await.unwrap_err().is_cancelled());
    log.turns.add_permits(10);
    eventually(Duration::from_secs(10), || async {
        let events = bench.get("/v1/events?status=pending").await.json();
        if events["items"].as_array().unwrap().len() == 1 { Ok(()) } else { Err(events) }
    })
    .await;
}

fn of(tenant: &str, request: Request<Body>) -> Request<Body> {
    header(request, "authorization", &format!("Bearer ms_{tenant}"))
}

fn send(app: &Router, request: Request<Body>) -> tokio::task::JoinHandle<Answer> {
    let app = app.clone();
    tokio::spawn(async move { Answer::of(app.oneshot(request).await.unwrap()).await })
}

#[tokio::test]
async fn bulk_tenant_does_not_delay_others() {
    let (bench, log) = stalled(|options| options.limits.queue_items = 8).await;
    log.turns.add_permits(4);
    for tenant in ["noisy", "quiet"] {
        bench.key(&format!("ms_{tenant}"), tenant, Role::Admin).await;
        let start = post("/v1/executions", &json!({"definition": "order", "execution_id": "o-1"}));
        for request in [yaml("/v1/definitions", ORDER), start] {
            let answer = bench.send(of(tenant, request)).await;
            assert!(answer.status.is_success(), "{answer:?}");
        }
    }
    log.turns.forget_permits(usize::MAX);
    log.batches.lock().unwrap().clear();

    let bulk = json!(vec![json!({"execution_id": "o-1", "name": "note"}); 1_000]);
    let one = json!({"name": "note"});
    let mut noisy: Vec<_> = Vec::new();
    for sizes in [&[1_000][..], &[1_000, 1_000]] {
        noisy.push(send(&bench.app, of("noisy", post("/v1/events", &bulk))));
        batches(&log, sizes).await;
    }
    // Both commits belong to one tenant, and more of its events wait.
    noisy.extend((0..3).map(|_| send(&bench.app, of("noisy", post("/v1/events", &bulk)))));
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    let quiet = send(&bench.app, of("quiet", post("/v1/executions/o-1/events", &one)));
    batches(&log, &[1_000, 1_000, 1]).await;

    // Six of eight places are the tenant's share.
    noisy.push(send(&bench.app, of("noisy", post("/v1/events", &bulk))));
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    let refused = bench.send(of("noisy", post("/v1/executions/o-1/events", &one))).await;
    let problem = refused.problem(429, "busy");
    assert!(problem["detail"].as_str().unwrap().contains("of this tenant"), "{problem}");
    log.turns.add_permits(100);
    assert_eq!(quiet.await.unwrap().status, 202);
    for answer in join_all(noisy).await {
        assert_eq!(answer.unwrap().status, 202);
    }
}

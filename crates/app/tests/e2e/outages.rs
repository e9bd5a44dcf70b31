//! Outages of services: Redis emptied, killed, stopped; the database down or locked. Latency suffers; no
//! accepted event is lost, and no manual restart is needed.

use std::time::Duration;

use millstream_testkit::client::try_send;
use millstream_testkit::fleet::FleetPostgres;
use millstream_testkit::{FleetMode, TestFleet, eventually, sqlite};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::json;

use crate::api::E2eApi;
use crate::definitions::COUNTER;
use crate::world::{E2eWorld, EMBEDDED, FLEET, SOON, start_on, start_world};

const EXECUTIONS: usize = 20;

async fn start_counters(api: &E2eApi) {
    api.apply(COUNTER).await;
    let starts: Vec<_> = (0..EXECUTIONS)
        .map(|i| json!({ "definition": "counter", "execution_id": format!("c-{i}") }))
        .collect();
    let reply = api.client.post("/v1/executions", &json!(starts)).await;
    assert!(reply.status < 300, "{}", reply.body);
}

/// One event for every counter, each posted under a key until it is accepted.
async fn post_round(api: &E2eApi, round: usize) {
    let posts: Vec<_> = (0..EXECUTIONS)
        .map(|i| {
            let api = api.clone();
            tokio::spawn(async move {
                eventually(SOON, || async {
                    let request = api
                        .client
                        .request(Method::POST, &format!("/v1/executions/c-{i}/events"))
                        .header("idempotency-key", format!("{i}-{round}"))
                        .json(&json!({ "name": "add", "payload": { "i": round } }));
                    let reply = try_send(request).await.map_err(|error| error.to_string())?;
                    match reply.status {
                        202 => Ok(()),
                        503 => Err(reply.expect_problem(503).to_string()),
                        _ => panic!("neither accepted nor unavailable: {reply:?}"),
                    }
                })
                .await;
            })
        })
        .collect();
    for post in posts {
        post.await.unwrap();
    }
}

/// Every counter has seen every round exactly once, in order.
async fn all_counted(api: &E2eApi, rounds: usize) {
    for i in 0..EXECUTIONS {
        let counted = api.execution_until(&format!("c-{i}"), |seen| seen["context"]["n"] == rounds).await;
        assert_eq!(counted["context"]["seen"], json!((0..rounds).collect::<Vec<_>>()));
        assert_eq!(counted["seq"], rounds + 1);
    }
}

fn nobody_died(fleet: &mut TestFleet, workers: usize) {
    assert_eq!(fleet.ingress().exit_status(), None, "the ingress lives");
    for index in 0..workers {
        assert_eq!(fleet.worker(index).exit_status(), None, "worker {index} lives");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emptied_redis_loses_no_event() {
    let mut world = start_world(FLEET).await;
    start_counters(&world.api).await;
    for round in 0..10 {
        let (api, redis) = (world.api.clone(), world.fleet.redis());
        tokio::join!(post_round(&api, round), redis.flush_all());
        redis.flush_all().await;
    }
    all_counted(&world.api, 10).await;
    nobody_died(&mut world.fleet, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_doorbells_are_rung_again() {
    let mut world = start_world(FleetMode::Fleet { workers: 0 }).await;
    start_counters(&world.api).await;
    for round in 0..3 {
        post_round(&world.api, round).await;
    }
    world.fleet.redis().flush_all().await;
    world.fleet.start_worker(&[]);
    all_counted(&world.api, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_empty_redis_loses_nothing() {
    let mut world = start_world(FLEET).await;
    start_counters(&world.api).await;
    post_round(&world.api, 0).await;
    world.fleet.redis().stop().await;
    post_round(&world.api, 1).await;
    world.fleet.redis().start_empty().await;
    post_round(&world.api, 2).await;
    world.fleet.redis().kill();
    post_round(&world.api, 3).await;
    world.fleet.redis().start_empty().await;
    all_counted(&world.api, 4).await;
    nobody_died(&mut world.fleet, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_postgres_loses_nothing() {
    let mut world = start_on(FLEET, FleetPostgres::Own, &[]).await;
    start_counters(&world.api).await;
    for round in 0..6 {
        let api = world.api.clone();
        let posting = tokio::spawn(async move { post_round(&api, round).await });
        world.fleet.postgres().stop_immediate();
        world.fleet.postgres().start().await;
        posting.await.unwrap();
    }
    all_counted(&world.api, 6).await;
    nobody_died(&mut world.fleet, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleet_answers_503_without_postgres() {
    let mut world = start_on(FLEET, FleetPostgres::Own, &[]).await;
    start_counters(&world.api).await;
    world.fleet.postgres().stop_immediate();
    refuses_with_503(&world, "/v1/executions/c-0").await;
    let reading = world.api.client.get("/v1/executions/c-0").await;
    reading.expect_problem(503);
    let ready = eventually(SOON, || async {
        let reply = world.api.client.get("/readyz").await;
        if reply.status == 200 { Err(reply) } else { Ok(reply) }
    })
    .await;
    assert_eq!(ready.status, 503);
    assert_eq!(world.api.client.get("/healthz").await.status, 200, "the process itself is well");

    world.fleet.postgres().start().await;
    world.fleet.wait_ready().await;
    post_round(&world.api, 0).await;
    all_counted(&world.api, 1).await;
    nobody_died(&mut world.fleet, 2);
}

/// SQLite is a file in the same process, so "down" means that writes fail: here because another process holds
/// the lock for longer than the engine waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_sqlite_file_answers_503() {
    let mut world = start_world(EMBEDDED).await;
    start_counters(&world.api).await;
    let lock = sqlite::lock_out(&world.fleet.sqlite_file()).await;
    refuses_with_503(&world, "/v1/executions/c-0").await;
    lock.release().await;
    post_round(&world.api, 0).await;
    all_counted(&world.api, 1).await;
    nobody_died(&mut world.fleet, 0);
}

async fn refuses_with_503(world: &E2eWorld, execution: &str) {
    let reply = tokio::time::timeout(
        Duration::from_secs(60),
        world
            .api
            .client
            .post(&format!("{execution}/events"), &json!({ "name": "add", "payload": { "i": 99 } })),
    )
    .await
    .expect("an answer and not a wait without end");
    reply.expect_problem(503);
    assert!(reply.header("retry-after").is_some(), "{:?}", reply.headers);
}

/// A worker that started before its Redis answered repeats its check: it must not rely on a Redis that
/// evicts.
#[tokio::test]
async fn evicting_redis_is_refused_late_too() {
    let mut world = start_world(FLEET).await;
    world.fleet.redis().set_config("maxmemory-policy", "allkeys-lru").await;
    world.fleet.redis().server_process().signal(Signal::SIGSTOP);
    let worker = world.fleet.start_worker(&[]);
    eventually(SOON, || {
        let output = world.fleet.worker(worker).output_text();
        std::future::ready(if output.contains("worker is up") { Ok(()) } else { Err(output) })
    })
    .await;
    world.fleet.redis().server_process().signal(Signal::SIGCONT);
    let ended = world.fleet.worker(worker).wait_for_exit(SOON).await;
    let output = world.fleet.worker(worker).output_text();
    assert!(!ended.success(), "{output}");
    assert!(output.contains("allkeys-lru") && output.contains("noeviction"), "{output}");
}

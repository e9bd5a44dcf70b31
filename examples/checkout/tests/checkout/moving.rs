//! A worker that dies in the middle of a long action: another goes on, and the first one's late word is
//! refused.

use std::time::{Duration, Instant};

use millstream_testkit::eventually;
use serde_json::{Value, json};

use crate::shop::{Built, SOON, Shop, apply};

const HEARTBEAT: Duration = Duration::from_secs(2);
/// What it may take beyond the heartbeat for another worker to have it.
const ALLOWED: Duration = Duration::from_secs(2);

const SLOW: &str = "
name: slow
initial: new
states:
  new: { on: { go: { to: working, do: [job] } } }
  working: { on: { done: { to: over } } }
  over: { final: true }
actions:
";

async fn begin(shop: &Shop, action: &str, id: &str) {
    apply(&shop.api, &format!("{SLOW}  job: {action}")).await;
    let start = json!({"definition": "slow", "execution_id": id, "events": [{"name": "go"}]});
    shop.api.post("/v1/executions", &start).await.expect_status(201);
}

/// Waits until the attempt is under way and has told its progress.
async fn under_way(shop: &Shop, id: &str, attempts: u64) -> Value {
    eventually(SOON, || async {
        match shop.action(id, "job").await {
            Some(job)
                if job["attempts"] == attempts && job["status"] == "leased" && !job["progress"].is_null() =>
            {
                Ok(job)
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

#[tokio::test]
async fn a_task_of_a_dead_python_worker_moves_within_its_heartbeat() {
    let mut shop = Shop::open(Built::Fleet).await;
    let first = shop.hire("py-1");
    let job = "{ task: { type: label, labels: [printer], input: { order_id: \"'x'\", seconds: 10 } }, \
               timeouts: { heartbeat: 2s }, on_success: done }";
    begin(&shop, job, "s-1").await;
    let held = under_way(&shop, "s-1", 1).await;
    assert_eq!(held["worker_id"], "py-1", "{held}");
    let key = held["key"].as_str().unwrap().replace('/', "%2F");
    let token = 1;
    shop.hire("py-2");
    shop.others[first].kill();
    let killed = Instant::now();
    let moved = under_way(&shop, "s-1", 2).await;
    let took = killed.elapsed();
    assert_eq!(moved["worker_id"], "py-2", "{moved}");
    assert!(took < HEARTBEAT + ALLOWED, "it took {took:?}");
    let late = json!({"token": token, "result": "too late"});
    let refused = shop.api.post(&format!("/v1/tasks/{key}/complete"), &late).await.expect_problem(409);
    assert!(refused["detail"].as_str().unwrap().contains("py-2"), "{refused}");
    let over = shop.reaches("s-1", "over").await;
    assert_eq!(over["status"], "completed", "{over}");
    assert_eq!(shop.action("s-1", "job").await.unwrap()["result"]["attempt"], 2);
}

#[tokio::test]
async fn a_call_of_a_dead_rust_worker_moves_within_its_heartbeat_and_goes_on_where_it_was() {
    let mut shop = Shop::open(Built::Fleet).await;
    let job = "{ call: pack, input: { seconds: 10 }, timeouts: { heartbeat: 2s }, on_success: done }";
    begin(&shop, job, "s-2").await;
    let held = under_way(&shop, "s-2", 1).await;
    let holder = held["worker_id"].as_str().unwrap().to_owned();
    let at = shop.others.iter().position(|other| holder.contains(&format!("-{}-", other.pid()))).unwrap();
    shop.others[at].kill();
    let killed = Instant::now();
    under_way(&shop, "s-2", 2).await;
    let took = killed.elapsed();
    assert!(took < HEARTBEAT + ALLOWED, "it took {took:?}");
    shop.reaches("s-2", "over").await;
    let job = shop.action("s-2", "job").await.unwrap();
    assert_eq!(job["result"]["attempt"], 2, "{job}");
    assert!(job["result"]["begun_at"].as_u64().unwrap() > 0, "{job}");
}

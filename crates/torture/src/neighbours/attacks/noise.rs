//! More events than can be decided during the attack, and a count that proves that none was lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millstream_testkit::TestClient;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::AttackScene;
use super::ledger::post_events;
use crate::neighbours::check::NeighbourFinding;
use crate::neighbours::engine::FleetUnderTest;

const EXECUTIONS: usize = 1_000;
/// Events of one request at most.
const BATCH: usize = 1_000;
const CONNECTIONS: usize = 64;
const PAUSE: Duration = Duration::from_millis(100);

const DEFINITION: &str = r#"
name: noisy
initial: open
context: { count: 0 }
states:
  open: { on: { tick: { set: { count: context.count + 1 }, do: [nothing] } } }
actions:
  nothing: { noop: {} }
"#;

/// The executions that bursts are sent to, and how many of their events were accepted.
#[derive(Debug)]
pub(in crate::neighbours) struct NoisyTenant {
    accepted: AtomicU64,
    /// Events of requests without a known answer.
    in_doubt: AtomicU64,
}

impl NoisyTenant {
    pub(in crate::neighbours) async fn prepare_tenant(client: &TestClient) -> Self {
        let stored = client.post_raw("/v1/definitions", "application/yaml", DEFINITION).await;
        assert!([200, 201].contains(&stored.status), "the definition was refused: {}", stored.body);
        for chunk in (0..EXECUTIONS).collect::<Vec<_>>().chunks(500) {
            let starts: Vec<Value> = chunk
                .iter()
                .map(|number| json!({ "definition": "noisy", "execution_id": execution_id(*number) }))
                .collect();
            let started = client.post("/v1/executions", &Value::from(starts)).await;
            assert!(started.status < 300, "the starts were refused: {}", started.body);
        }
        Self { accepted: AtomicU64::new(0), in_doubt: AtomicU64::new(0) }
    }

    pub(super) fn first_execution(&self) -> String {
        execution_id(0)
    }
}

fn execution_id(number: usize) -> String {
    format!("noisy-{number}")
}

/// Posts events in batches at full speed, from many connections.
pub(super) async fn send_burst(scene: &AttackScene) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (scene, next) = (scene.clone(), Arc::clone(&next));
        connections.spawn(async move { post_batches(&scene, &next).await });
    }
    connections.join_all().await;
    scene.sleep_until_over().await;
}

async fn post_batches(scene: &AttackScene, next: &AtomicUsize) {
    // Every connection gets events to post.
    let batch = (scene.burst / CONNECTIONS).clamp(1, BATCH);
    loop {
        let from = next.fetch_add(batch, Ordering::Relaxed);
        if from >= scene.burst {
            return;
        }
        let events: Vec<Value> = (from..(from + batch).min(scene.burst))
            .map(|number| json!({ "execution_id": execution_id(number % EXECUTIONS), "name": "tick" }))
            .collect();
        let events = Value::from(events);
        while !scene.is_over() {
            let answer = post_events(scene, "/v1/events", &events).await;
            scene.noisy.accepted.fetch_add(answer.accepted, Ordering::Relaxed);
            scene.noisy.in_doubt.fetch_add(answer.in_doubt, Ordering::Relaxed);
            // A refused batch is sent again; a possibly durable one is not.
            if answer.accepted + answer.in_doubt > 0 {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The same while Redis loses everything, then single keys, and a worker is killed.
pub(super) async fn burst_with_faults(scene: &AttackScene) {
    let faults = scene.fleet_threads.spawn(inject_faults(scene.clone()));
    let (injected, ()) = futures::future::join(faults, send_burst(scene)).await;
    injected.expect("faults are injected without a panic");
}

async fn inject_faults(scene: AttackScene) {
    let mut chance = scene.chance.for_the("faults");
    let pause = scene.until.saturating_duration_since(Instant::now()) / 8;
    for turn in 0..6 {
        tokio::time::sleep(pause).await;
        match turn % 3 {
            0 => {
                scene.fleet.empty_redis().await;
                scene.add_count("Redis emptied", 1);
            }
            1 => {
                for _ in 0..20 {
                    let deleted = scene.fleet.delete_redis_key(&mut chance).await;
                    scene.add_count("Redis keys deleted", u64::from(deleted.is_some()));
                }
            }
            _ => {
                scene.fleet.replace_worker(&mut chance).await;
                scene.add_count("workers killed", 1);
            }
        }
    }
}

/// Waits until every accepted event of the bursts is applied; reports missing ones when time is up.
pub(in crate::neighbours) async fn verify_nothing_lost(
    fleet: &FleetUnderTest,
    noisy: &NoisyTenant,
    patience: Duration,
) -> Vec<NeighbourFinding> {
    let (accepted, in_doubt) =
        (noisy.accepted.load(Ordering::Relaxed), noisy.in_doubt.load(Ordering::Relaxed));
    let client = &fleet.hostile;
    let until = Instant::now() + patience;
    loop {
        let applied = applied_events(client).await;
        match applied {
            Ok(applied) if (accepted..=accepted + in_doubt).contains(&applied) => return Vec::new(),
            Ok(applied) if applied > accepted + in_doubt => {
                let what = format!("{applied} events were applied and only {accepted} accepted");
                return vec![NeighbourFinding::new_finding("hostile events", what)];
            }
            Ok(applied) if Instant::now() > until => {
                let what = format!("{applied} of {accepted} accepted events were applied");
                return vec![NeighbourFinding::new_finding("hostile events", what)];
            }
            Err(error) if Instant::now() > until => {
                return vec![NeighbourFinding::new_finding("hostile events", error)];
            }
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// The sum of the counters of all noisy executions.
async fn applied_events(client: &TestClient) -> Result<u64, String> {
    let mut applied = 0;
    for number in 0..EXECUTIONS {
        let path = format!("/v1/executions/{}", execution_id(number));
        let answer = client.request(Method::GET, &path).send().await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let execution: Value = answer.json().await.map_err(|error| error.to_string())?;
        let count = execution["context"]["count"].as_u64();
        applied += count.ok_or_else(|| format!("{path} answered {status}: {execution}"))?;
    }
    Ok(applied)
}

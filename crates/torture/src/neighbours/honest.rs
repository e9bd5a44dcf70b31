//! The honest tenant: one event every few milliseconds on a fixed schedule (an open loop), each with an HTTP
//! action. Latency counts from the scheduled time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_testkit::TestClient;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::figures::LatencySample;
use super::target::ActionTarget;

const EXECUTIONS: u64 = 64;
/// How long a client waits for an answer.
const ANSWER: Duration = Duration::from_secs(30);

/// One event of the honest tenant.
#[derive(Debug, Clone)]
struct SentEvent {
    number: u64,
    scheduled: Instant,
    answered: Instant,
    answer: Result<(), String>,
}

/// Outcome of the events of one attack.
#[derive(Debug, Clone)]
pub(super) struct HonestOutcome {
    pub(super) sent: usize,
    pub(super) accept: LatencySample,
    pub(super) action: LatencySample,
    pub(super) refused: BTreeMap<String, usize>,
    pub(super) lost: usize,
}

#[derive(Debug)]
pub(super) struct HonestTenant {
    client: TestClient,
    interval: Duration,
    next: AtomicU64,
}

impl HonestTenant {
    /// Stores the definition and starts the executions.
    pub(super) async fn prepare_tenant(client: TestClient, target: &ActionTarget, rate: u64) -> Arc<Self> {
        let definition = format!(
            r#"
name: honest
initial: open
states:
  open: {{ on: {{ tick: {{ do: [call] }} }} }}
actions:
  call: {{ http: {{ method: POST, url: "{}" }} }}
"#,
            target.url("/honest/${event.payload.number}")
        );
        let stored = client.post_raw("/v1/definitions", "application/yaml", definition).await;
        assert!([200, 201].contains(&stored.status), "the definition was refused: {}", stored.body);
        for number in 0..EXECUTIONS {
            let start = json!({ "definition": "honest", "execution_id": format!("honest-{number}") });
            client.post("/v1/executions", &start).await.expect_status(201);
        }
        let interval = Duration::from_nanos(1_000_000_000 / rate);
        Arc::new(Self { client, interval, next: AtomicU64::new(0) })
    }

    /// Sends events until `over`, then waits for their actions, at most `patience`.
    pub(super) async fn drive_load(
        self: Arc<Self>,
        target: Arc<ActionTarget>,
        mut over: watch::Receiver<bool>,
        patience: Duration,
    ) -> HonestOutcome {
        let mut sends = JoinSet::new();
        let mut ticks = tokio::time::interval(self.interval);
        loop {
            let scheduled = tokio::select! {
                tick = ticks.tick() => tick.into_std(),
                _ = over.wait_for(|over| *over) => break,
            };
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            sends.spawn(Arc::clone(&self).send_event(number, scheduled));
        }
        let events = sends.join_all().await;
        let until = Instant::now() + patience;
        let missing =
            |event: &&SentEvent| event.answer.is_ok() && !target.arrivals().contains_key(&event.number);
        while Instant::now() < until && events.iter().any(|event| missing(&event)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        summarize_events(&events, &target.arrivals())
    }

    async fn send_event(self: Arc<Self>, number: u64, scheduled: Instant) -> SentEvent {
        let path = format!("/v1/executions/honest-{}/events", number % EXECUTIONS);
        let event = json!({ "name": "tick", "payload": { "number": number } });
        let request = self.client.request(Method::POST, &path).timeout(ANSWER).json(&event);
        let answer = match request.send().await {
            Ok(answer) if answer.status().as_u16() == 202 => Ok(()),
            Ok(answer) => {
                let status = answer.status().as_u16();
                let problem: Value = answer.json().await.unwrap_or_default();
                Err(format!("status {status} {}", problem["detail"].as_str().unwrap_or("")))
            }
            Err(error) if error.is_timeout() => Err("no answer in time".to_owned()),
            Err(_) => Err("no connection".to_owned()),
        };
        SentEvent { number, scheduled, answered: Instant::now(), answer }
    }
}

fn summarize_events(events: &[SentEvent], arrivals: &BTreeMap<u64, Instant>) -> HonestOutcome {
    let accepted: Vec<_> = events.iter().filter(|event| event.answer.is_ok()).collect();
    let accept = accepted.iter().map(|event| event.answered - event.scheduled).collect();
    let arrival = |event: &&SentEvent| Some(arrivals.get(&event.number)?.duration_since(event.scheduled));
    let action: Vec<_> = accepted.iter().filter_map(arrival).collect();
    let mut refused = BTreeMap::new();
    for event in events {
        if let Err(why) = &event.answer {
            *refused.entry(why.clone()).or_default() += 1;
        }
    }
    HonestOutcome {
        sent: events.len(),
        lost: accepted.len() - action.len(),
        accept: LatencySample::from_durations(accept),
        action: LatencySample::from_durations(action),
        refused,
    }
}

//! What a load balancer and a scraper would see: `/healthz`, `/readyz` and `/metrics`, asked all the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_testkit::Client;
use reqwest::Method;
use tokio::sync::watch;

use super::engine::FleetUnderTest;
use super::figures::LatencySample;

const INTERVAL: Duration = Duration::from_millis(250);
const ANSWER: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default)]
pub(super) struct ProbeOutcome {
    pub(super) latency: LatencySample,
    pub(super) failures: BTreeMap<String, usize>,
    /// Processes that ended by themselves.
    pub(super) ended: Vec<String>,
}

/// Asks until `over` says so. Each probe opens a connection of its own, as probes do.
pub(super) async fn probe(fleet: Arc<FleetUnderTest>, mut over: watch::Receiver<bool>) -> ProbeOutcome {
    let mut latencies = Vec::new();
    let mut outcome = ProbeOutcome::default();
    while !*over.borrow_and_update() {
        for path in ["/healthz", "/readyz", "/metrics"] {
            let client = Client::new(&fleet.url).with_key(&fleet.keys.operator);
            let began = Instant::now();
            let answer = client.request(Method::GET, path).timeout(ANSWER).send().await;
            let failure = match answer {
                Ok(answer) if answer.status().is_success() => answer.bytes().await.err().map(|_| "cut off"),
                Ok(answer) if answer.status().as_u16() == 429 => Some("status 429"),
                Ok(_) => Some("another status"),
                Err(_) => Some("no answer"),
            };
            match failure {
                None => latencies.push(began.elapsed()),
                Some(failure) => *outcome.failures.entry(format!("{path}: {failure}")).or_default() += 1,
            }
        }
        for ended in fleet.observe_processes().await {
            if !outcome.ended.contains(&ended) {
                outcome.ended.push(ended);
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
    outcome.latency = LatencySample::of(latencies);
    outcome
}

//! Probes of `/healthz`, `/readyz` and `/metrics`, as a load balancer and a scraper would send them, all the
//! time.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
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

/// Probes until `over`. Each probe opens a connection of its own, as real probes do.
pub(super) async fn probe_fleet(fleet: Arc<FleetUnderTest>, mut over: watch::Receiver<bool>) -> ProbeOutcome {
    let mut latencies = Vec::new();
    let mut outcome = ProbeOutcome::default();
    while !*over.borrow_and_update() {
        for path in ["/healthz", "/readyz", "/metrics"] {
            let began = Instant::now();
            let failure = match tokio::time::timeout(ANSWER, ask_path(&fleet, path)).await {
                Ok(Ok(200)) => None,
                Ok(Ok(status)) => Some(format!("{path}: status {status}")),
                Ok(Err(_)) => Some(format!("{path}: cut off")),
                Err(_) => Some(format!("{path}: no answer")),
            };
            match failure {
                None => latencies.push(began.elapsed()),
                Some(failure) => *outcome.failures.entry(failure).or_default() += 1,
            }
        }
        for ended in fleet.observe_processes().await {
            if !outcome.ended.contains(&ended) {
                outcome.ended.push(ended);
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
    outcome.latency = LatencySample::from_durations(latencies);
    outcome
}

/// One request on a new connection. Returns the status after the complete answer.
async fn ask_path(fleet: &FleetUnderTest, path: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect(fleet.address()).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        fleet.address(),
        fleet.keys.operator
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let status = answer.get(9..12).and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
    status.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

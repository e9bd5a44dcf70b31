//! The HTTP client of one device, and the bad network between it and the doors.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::record::Record;

/// How long anybody waits for an answer, beside what was asked to be waited for.
const PATIENCE: Duration = Duration::from_secs(4);

/// What becomes of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    Whole = 0,
    /// Nothing is sent.
    CutOff = 1,
    /// Everything arrives, and no answer comes back.
    Deaf = 2,
    /// Everything takes its time.
    Slow = 3,
}

#[derive(Debug)]
pub(super) enum Reply {
    /// It never left.
    Unsent,
    /// Nothing, or nothing certain.
    Nothing,
    Answered {
        status: u16,
        body: Value,
    },
}

#[derive(Debug)]
pub(super) struct Wire {
    http: reqwest::Client,
    doors: Vec<String>,
    door: AtomicUsize,
    network: AtomicU8,
    record: Record,
}

impl Wire {
    /// With a client, and so connections, of its own; `first` is the door that it goes to first.
    pub(super) fn to(doors: &[String], first: usize, record: &Record) -> Self {
        millstream_testkit::client::install_crypto();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("an HTTP client");
        Self {
            http,
            doors: doors.to_vec(),
            door: AtomicUsize::new(first),
            network: AtomicU8::new(Network::Whole as u8),
            record: record.clone(),
        }
    }

    pub(super) fn becomes(&self, network: Network) {
        self.network.store(network as u8, Ordering::SeqCst);
    }

    fn is(&self, network: Network) -> bool {
        self.network.load(Ordering::SeqCst) == network as u8
    }

    pub(super) async fn get(&self, path: &str, wait: Duration) -> Reply {
        self.send(Method::GET, path, None, wait).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::POST, path, Some(body), Duration::ZERO).await
    }

    /// Whoever does not answer is left for another door.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        wait: Duration,
    ) -> Reply {
        if self.is(Network::CutOff) {
            return Reply::Unsent;
        }
        if self.is(Network::Slow) {
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
        let door = &self.doors[self.door.load(Ordering::Relaxed) % self.doors.len()];
        let request = self.http.request(method, format!("{door}{path}")).timeout(PATIENCE + wait);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = match request.send().await {
            Ok(answer) => {
                let status = answer.status().as_u16();
                answer.bytes().await.ok().map(|bytes| (status, bytes))
            }
            Err(_) => None,
        };
        // Also where the network broke while the request was under way.
        let is_lost = self.is(Network::Deaf) || self.is(Network::CutOff);
        let mut written = self.record.write();
        written.requests += 1;
        match answer {
            Some((status, bytes)) if !is_lost && status != 429 && status < 500 => {
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                if status == 400 || status == 422 {
                    written.odd.push(format!("{path}: {status} {body}"));
                }
                Reply::Answered { status, body }
            }
            Some((status, bytes)) if !is_lost => {
                written.put_off += 1;
                if status == 500 {
                    written.odd.push(format!("{path}: 500 {}", String::from_utf8_lossy(&bytes)));
                }
                self.door.fetch_add(1, Ordering::Relaxed);
                Reply::Nothing
            }
            Some(_) | None => {
                written.unanswered += 1;
                self.door.fetch_add(1, Ordering::Relaxed);
                Reply::Nothing
            }
        }
    }
}

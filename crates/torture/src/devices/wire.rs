//! The HTTP client of one device, and the bad network between it and the ingresses.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::record::DeviceRecord;

/// Client timeout, in addition to the long-poll time of a request.
const PATIENCE: Duration = Duration::from_secs(4);

/// State of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceNetwork {
    Whole = 0,
    /// Requests are not sent.
    CutOff = 1,
    /// Requests arrive, answers are lost.
    Deaf = 2,
    /// Requests and answers are slow.
    Slow = 3,
}

#[derive(Debug)]
pub(super) enum DeviceReply {
    /// The request was not sent.
    Unsent,
    /// No definite answer.
    Nothing,
    Answered {
        status: u16,
        body: Value,
    },
}

#[derive(Debug)]
pub(super) struct DeviceWire {
    http: reqwest::Client,
    doors: Vec<String>,
    door: AtomicUsize,
    network: AtomicU8,
    record: DeviceRecord,
}

impl DeviceWire {
    /// A wire with a client, and so connections, of its own; `first` is its first ingress.
    pub(super) fn to_ingresses(doors: &[String], first: usize, record: &DeviceRecord) -> Self {
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
            network: AtomicU8::new(DeviceNetwork::Whole as u8),
            record: record.clone(),
        }
    }

    pub(super) fn set_network(&self, network: DeviceNetwork) {
        self.network.store(network as u8, Ordering::SeqCst);
    }

    fn network_is(&self, network: DeviceNetwork) -> bool {
        self.network.load(Ordering::SeqCst) == network as u8
    }

    pub(super) async fn get(&self, path: &str, wait: Duration) -> DeviceReply {
        self.send(Method::GET, path, None, wait).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> DeviceReply {
        self.send(Method::POST, path, Some(body), Duration::ZERO).await
    }

    /// Switches to another ingress when one does not answer.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        wait: Duration,
    ) -> DeviceReply {
        if self.network_is(DeviceNetwork::CutOff) {
            return DeviceReply::Unsent;
        }
        if self.network_is(DeviceNetwork::Slow) {
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
        // Also if the network broke during the request.
        let is_lost = self.network_is(DeviceNetwork::Deaf) || self.network_is(DeviceNetwork::CutOff);
        let mut written = self.record.lock_state();
        written.requests += 1;
        match answer {
            Some((status, bytes)) if !is_lost && status != 429 && status < 500 => {
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                if status == 400 || status == 422 {
                    written.odd.push(format!("{path}: {status} {body}"));
                }
                DeviceReply::Answered { status, body }
            }
            Some((status, bytes)) if !is_lost => {
                written.put_off += 1;
                if status == 500 {
                    written.odd.push(format!("{path}: 500 {}", String::from_utf8_lossy(&bytes)));
                }
                self.door.fetch_add(1, Ordering::Relaxed);
                DeviceReply::Nothing
            }
            Some(_) | None => {
                written.unanswered += 1;
                self.door.fetch_add(1, Ordering::Relaxed);
                DeviceReply::Nothing
            }
        }
    }
}

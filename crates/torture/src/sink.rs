//! Target of actions: it records every call, refuses repeated keys and lower tokens, and misbehaves on
//! purpose.
//!
//! The path determines the treatment of a call: `/ok` performs it, `/pair` performs it once the other call of
//! its pair has arrived as well (so that both are answered at the same instant), `/slow` is slow, `/flaky`
//! fails twice before it performs it, `/lost` performs it and loses the answer, `/never` always refuses.
//! Performing it is an *effect*: one per key, however often it is called. A key with an effect is answered as
//! before, marked as repeated; a token lower than an earlier one is refused.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Longer than an action's timeout in the definitions of the load.
const LOST: Duration = Duration::from_millis(2_500);
/// How long one call of a pair waits for the other.
const MEETING: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct TortureSink {
    address: SocketAddr,
    book: Arc<TortureSinkState>,
    server: JoinHandle<()>,
}

/// All calls.
#[derive(Debug, Default, Clone)]
pub struct TortureSinkBook {
    pub calls: Vec<TortureSinkCall>,
    pub keys: BTreeMap<String, SinkKeyRecord>,
}

#[derive(Debug, Clone)]
pub struct TortureSinkCall {
    pub key: String,
    pub token: i64,
    pub at: Instant,
    pub treated: SinkTreatment,
}

/// State of a key.
#[derive(Debug, Clone, Default)]
pub struct SinkKeyRecord {
    pub highest: i64,
    pub calls: u32,
    /// Tokens that had an effect: one, or none yet.
    pub effects: Vec<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkTreatment {
    /// Performed, and answered.
    Done,
    /// Performed, and the answer is withheld.
    DoneSilently,
    /// Already performed before.
    Repeated,
    /// Failed without an effect; a retry makes sense.
    Failed,
    /// Refused permanently.
    Refused,
    /// Its token is lower than an earlier one.
    Stale,
}

/// Treatment of calls by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SinkManner {
    Ok,
    Pair,
    Slow,
    Flaky,
    Lost,
    Never,
}

impl SinkManner {
    fn from_path(path: &str) -> Self {
        match path.trim_start_matches('/').split('/').next().unwrap_or_default() {
            "pair" => Self::Pair,
            "slow" => Self::Slow,
            "flaky" => Self::Flaky,
            "lost" => Self::Lost,
            "never" => Self::Never,
            _ => Self::Ok,
        }
    }
}

impl TortureSinkBook {
    /// Decides a call and records it.
    fn treat_call(&mut self, key: String, token: i64, manner: SinkManner, at: Instant) -> SinkTreatment {
        let known = self.keys.entry(key.clone()).or_default();
        known.calls += 1;
        let treated = if token < known.highest {
            SinkTreatment::Stale
        } else if !known.effects.is_empty() {
            SinkTreatment::Repeated
        } else {
            match manner {
                SinkManner::Never => SinkTreatment::Refused,
                SinkManner::Flaky if known.calls < 3 => SinkTreatment::Failed,
                SinkManner::Lost if known.calls < 2 => SinkTreatment::DoneSilently,
                SinkManner::Ok
                | SinkManner::Pair
                | SinkManner::Slow
                | SinkManner::Flaky
                | SinkManner::Lost => SinkTreatment::Done,
            }
        };
        known.highest = known.highest.max(token);
        match treated {
            SinkTreatment::Done | SinkTreatment::DoneSilently => known.effects.push(token),
            SinkTreatment::Repeated
            | SinkTreatment::Failed
            | SinkTreatment::Refused
            | SinkTreatment::Stale => {}
        }
        self.calls.push(TortureSinkCall { key, token, at, treated });
        treated
    }
}

impl TortureSink {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind the sink");
        let address = listener.local_addr().expect("the sink's address");
        let book = Arc::new(TortureSinkState::default());
        let app = Router::new().fallback(answer_request).with_state(Arc::clone(&book));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.expect("serve the sink") });
        Self { address, book, server }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn book(&self) -> TortureSinkBook {
        self.book.book().clone()
    }
}

impl Drop for TortureSink {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[derive(Debug, Default)]
struct TortureSinkState {
    book: Mutex<TortureSinkBook>,
    /// Calls that wait for the other call of their pair.
    waiting: Mutex<BTreeMap<String, Arc<Notify>>>,
}

impl TortureSinkState {
    fn book(&self) -> MutexGuard<'_, TortureSinkBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a while for the other call of the pair, or wakes it.
    async fn meet_key(&self, key: &str) {
        let pair = key.rsplit_once('/').map_or(key, |(pair, _)| pair).to_owned();
        let mine = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(other) = waiting.remove(&pair) {
                other.notify_one();
                return;
            }
            let mine = Arc::new(Notify::new());
            waiting.insert(pair.clone(), Arc::clone(&mine));
            mine
        };
        let _ = tokio::time::timeout(MEETING, mine.notified()).await;
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&pair);
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

async fn answer_request(State(shared): State<Arc<TortureSinkState>>, request: Request) -> Response<Body> {
    let manner = SinkManner::from_path(request.uri().path());
    let key = header_text(request.headers(), "idempotency-key").to_owned();
    let token: i64 = header_text(request.headers(), "millstream-fencing-token").parse().unwrap_or(-1);
    let noticed = Instant::now();
    if manner == SinkManner::Slow {
        // Between one and three leases at a tenth of the defaults.
        let spread = u64::from(key.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)));
        tokio::time::sleep(Duration::from_millis(800 + spread * 10)).await;
    }
    if manner == SinkManner::Pair {
        shared.meet_key(&key).await;
    }
    let treated = shared.book().treat_call(key, token, manner, noticed);
    let (status, word) = match treated {
        SinkTreatment::Done => (200, "done"),
        SinkTreatment::Repeated => (200, "repeated"),
        SinkTreatment::DoneSilently => {
            tokio::time::sleep(LOST).await;
            (504, "late")
        }
        SinkTreatment::Failed => (503, "not now"),
        SinkTreatment::Refused => (422, "never"),
        SinkTreatment::Stale => (409, "an older token"),
    };
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Body::from(json!({ "word": word, "token": token }).to_string()))
        .expect("a response")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn treat_sample(book: &mut TortureSinkBook, token: i64, manner: SinkManner) -> SinkTreatment {
        book.treat_call("k".to_owned(), token, manner, Instant::now())
    }

    #[test]
    fn sink_key_has_one_effect() {
        let mut book = TortureSinkBook::default();
        assert_eq!(treat_sample(&mut book, 1, SinkManner::Lost), SinkTreatment::DoneSilently);
        assert_eq!(treat_sample(&mut book, 2, SinkManner::Lost), SinkTreatment::Repeated);
        assert_eq!(book.keys["k"].effects, [1]);
    }

    #[test]
    fn a_lower_token_has_no_effect() {
        let mut book = TortureSinkBook::default();
        assert_eq!(treat_sample(&mut book, 2, SinkManner::Flaky), SinkTreatment::Failed);
        assert_eq!(treat_sample(&mut book, 1, SinkManner::Ok), SinkTreatment::Stale);
        assert_eq!(treat_sample(&mut book, 2, SinkManner::Ok), SinkTreatment::Done);
        assert_eq!(book.keys["k"].effects, [2]);
    }

    #[test]
    fn a_flaky_target_fails_twice() {
        let mut book = TortureSinkBook::default();
        let treated = [(); 3].map(|()| treat_sample(&mut book, 1, SinkManner::Flaky));
        assert_eq!(treated, [SinkTreatment::Failed, SinkTreatment::Failed, SinkTreatment::Done]);
    }
}

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
pub struct Sink {
    address: SocketAddr,
    book: Arc<Shared>,
    server: JoinHandle<()>,
}

/// All calls.
#[derive(Debug, Default, Clone)]
pub struct Book {
    pub calls: Vec<Call>,
    pub keys: BTreeMap<String, Key>,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub key: String,
    pub token: i64,
    pub at: Instant,
    pub treated: Treated,
}

/// State of a key.
#[derive(Debug, Clone, Default)]
pub struct Key {
    pub highest: i64,
    pub calls: u32,
    /// Tokens that had an effect: one, or none yet.
    pub effects: Vec<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treated {
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
enum Manner {
    Ok,
    Pair,
    Slow,
    Flaky,
    Lost,
    Never,
}

impl Manner {
    fn of(path: &str) -> Self {
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

impl Book {
    /// Decides a call and records it.
    fn treat(&mut self, key: String, token: i64, manner: Manner, at: Instant) -> Treated {
        let known = self.keys.entry(key.clone()).or_default();
        known.calls += 1;
        let treated = if token < known.highest {
            Treated::Stale
        } else if !known.effects.is_empty() {
            Treated::Repeated
        } else {
            match manner {
                Manner::Never => Treated::Refused,
                Manner::Flaky if known.calls < 3 => Treated::Failed,
                Manner::Lost if known.calls < 2 => Treated::DoneSilently,
                Manner::Ok | Manner::Pair | Manner::Slow | Manner::Flaky | Manner::Lost => Treated::Done,
            }
        };
        known.highest = known.highest.max(token);
        match treated {
            Treated::Done | Treated::DoneSilently => known.effects.push(token),
            Treated::Repeated | Treated::Failed | Treated::Refused | Treated::Stale => {}
        }
        self.calls.push(Call { key, token, at, treated });
        treated
    }
}

impl Sink {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind the sink");
        let address = listener.local_addr().expect("the sink's address");
        let book = Arc::new(Shared::default());
        let app = Router::new().fallback(answer).with_state(Arc::clone(&book));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.expect("serve the sink") });
        Self { address, book, server }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn book(&self) -> Book {
        self.book.book().clone()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    /// Calls that wait for the other call of their pair.
    waiting: Mutex<BTreeMap<String, Arc<Notify>>>,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a while for the other call of the pair, or wakes it.
    async fn meet(&self, key: &str) {
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

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let manner = Manner::of(request.uri().path());
    let key = header(request.headers(), "idempotency-key").to_owned();
    let token: i64 = header(request.headers(), "millstream-fencing-token").parse().unwrap_or(-1);
    let noticed = Instant::now();
    if manner == Manner::Slow {
        // Between one and three leases at a tenth of the defaults.
        let spread = u64::from(key.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)));
        tokio::time::sleep(Duration::from_millis(800 + spread * 10)).await;
    }
    if manner == Manner::Pair {
        shared.meet(&key).await;
    }
    let treated = shared.book().treat(key, token, manner, noticed);
    let (status, word) = match treated {
        Treated::Done => (200, "done"),
        Treated::Repeated => (200, "repeated"),
        Treated::DoneSilently => {
            tokio::time::sleep(LOST).await;
            (504, "late")
        }
        Treated::Failed => (503, "not now"),
        Treated::Refused => (422, "never"),
        Treated::Stale => (409, "an older token"),
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

    fn treat(book: &mut Book, token: i64, manner: Manner) -> Treated {
        book.treat("k".to_owned(), token, manner, Instant::now())
    }

    #[test]
    fn a_key_has_one_effect_however_often_it_is_called() {
        let mut book = Book::default();
        assert_eq!(treat(&mut book, 1, Manner::Lost), Treated::DoneSilently);
        assert_eq!(treat(&mut book, 2, Manner::Lost), Treated::Repeated);
        assert_eq!(book.keys["k"].effects, [1]);
    }

    #[test]
    fn a_lower_token_has_no_effect() {
        let mut book = Book::default();
        assert_eq!(treat(&mut book, 2, Manner::Flaky), Treated::Failed);
        assert_eq!(treat(&mut book, 1, Manner::Ok), Treated::Stale);
        assert_eq!(treat(&mut book, 2, Manner::Ok), Treated::Done);
        assert_eq!(book.keys["k"].effects, [2]);
    }

    #[test]
    fn a_flaky_target_fails_twice() {
        let mut book = Book::default();
        let treated = [(); 3].map(|()| treat(&mut book, 1, Manner::Flaky));
        assert_eq!(treated, [Treated::Failed, Treated::Failed, Treated::Done]);
    }
}

//! HTTP targets of actions: one records the arrival of each honest action; another, on the threads of the
//! attackers, serves hostile actions, so that their load does not count as latency of the honest tenant.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Longer than any attack lasts.
const TARPIT: Duration = Duration::from_secs(3600);

/// First arrival of the action of each honest event, by the number of the event.
type ActionArrivals = Arc<Mutex<BTreeMap<u64, Instant>>>;

#[derive(Debug)]
pub(super) struct ActionTarget {
    base: String,
    arrivals: ActionArrivals,
    server: JoinHandle<()>,
}

impl ActionTarget {
    pub(super) async fn start() -> Self {
        let arrivals = ActionArrivals::default();
        let app =
            Router::new().route("/honest/{number}", post(record_arrival)).with_state(Arc::clone(&arrivals));
        let (base, server) = serve(app).await;
        Self { base, arrivals, server }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(super) fn arrivals(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActionTarget {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Target of actions of the hostile tenant: nothing is measured here.
#[derive(Debug)]
pub(super) struct HostileTarget {
    base: String,
    server: JoinHandle<()>,
}

impl HostileTarget {
    pub(super) async fn start() -> Self {
        let app = Router::new()
            .route("/tarpit", post(|| tokio::time::sleep(TARPIT)))
            .route("/swift", post(async || "{}"));
        let (base, server) = serve(app).await;
        Self { base, server }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

impl Drop for HostileTarget {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Serves on a free port of loopback; answers the address.
async fn serve(app: Router) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind a target");
    let base = format!("http://{}", listener.local_addr().expect("the target's address"));
    (base, tokio::spawn(async move { axum::serve(listener, app).await.expect("serve a target") }))
}

async fn record_arrival(State(arrivals): State<ActionArrivals>, Path(number): Path<u64>) -> &'static str {
    let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
    arrivals.entry(number).or_insert_with(Instant::now);
    "{}"
}

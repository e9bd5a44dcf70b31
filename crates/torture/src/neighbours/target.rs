//! HTTP targets of actions: one records the arrival of each honest action; another, on a thread of its own,
//! serves hostile actions, so that their load does not count as latency of the honest tenant.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than any attack lasts.
const TARPIT: Duration = Duration::from_secs(3600);

/// First arrival of the action of each honest event, by the number of the event.
type Arrivals = Arc<Mutex<BTreeMap<u64, Instant>>>;

#[derive(Debug)]
pub(super) struct ActionTarget {
    base: String,
    arrivals: Arrivals,
    server: JoinHandle<()>,
}

impl ActionTarget {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind the target");
        let base = format!("http://{}", listener.local_addr().expect("the target's address"));
        let arrivals = Arrivals::default();
        let app = Router::new().route("/honest/{number}", post(arrive)).with_state(Arc::clone(&arrivals));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.expect("serve the target") });
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
    runtime: Option<Runtime>,
}

impl HostileTarget {
    pub(super) async fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let app = Router::new()
            .route("/tarpit", post(|| tokio::time::sleep(TARPIT)))
            .route("/swift", post(async || "{}"));
        let (bound, base) = oneshot::channel();
        runtime.spawn(async move {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind the hostile target");
            let address = listener.local_addr().expect("the hostile target's address");
            bound.send(format!("http://{address}")).expect("the torture waits for the address");
            axum::serve(listener, app).await.expect("serve the hostile target");
        });
        Self { base: base.await.expect("an address"), runtime: Some(runtime) }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

impl Drop for HostileTarget {
    fn drop(&mut self) {
        // A runtime may not wait for its threads inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn arrive(State(arrivals): State<Arrivals>, Path(number): Path<u64>) -> &'static str {
    let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
    arrivals.entry(number).or_insert_with(Instant::now);
    "{}"
}

//! The till that charges the demo's orders: a real HTTP server that fails now and then.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use tokio::net::TcpListener;

/// Number of requests per idempotency key.
type ChargeCounts = Arc<Mutex<BTreeMap<String, u32>>>;

#[derive(Debug)]
pub(super) struct DemoTill {
    address: SocketAddr,
    book: ChargeCounts,
}

impl DemoTill {
    pub(super) async fn open() -> Result<Self> {
        let book = ChargeCounts::default();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = Router::new().route("/charge/{order}", post(handle_charge)).with_state(book.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, book })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// (distinct charges, calls in all).
    pub(super) fn counts(&self) -> (usize, u32) {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        (book.len(), book.values().sum())
    }
}

async fn handle_charge(State(book): State<ChargeCounts>, headers: HeaderMap) -> StatusCode {
    let Some(key) = headers.get("idempotency-key").and_then(|key| key.to_str().ok()) else {
        return StatusCode::BAD_REQUEST;
    };
    let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
    let nth_charge = book.len();
    let calls = book.entry(key.to_owned()).or_insert(0);
    *calls += 1;
    // The first call for every tenth charge fails; the retry succeeds.
    if *calls == 1 && nth_charge % 10 == 9 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}

//! A TCP proxy between two processes that injects network faults: delay, stall, loss, reset.
//!
//! Processes use its address instead of the real one; the weather changes for all connections at once. Bytes
//! are never reordered and never lost silently on a surviving connection: a connection that lost some is
//! reset when the weather changes, as a real network would end it. Counters show whether a fault had an
//! effect.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

const CHUNK: usize = 64 * 1024;

/// Treatment of all bytes between the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkWeather {
    Clear,
    /// Every chunk arrives this much later.
    Slow(Duration),
    /// Nothing arrives and no side is notified; all of it arrives when the weather clears.
    Stalled,
    /// Bytes are accepted and dropped; connections that lost some are reset when the weather changes.
    Deaf,
    /// Every connection is reset, new ones too.
    Cut,
}

/// What a proxy has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyTotals {
    pub connections: u64,
    pub passed: u64,
    /// Chunks that were held up.
    pub delayed: u64,
    /// Bytes that never arrived.
    pub swallowed: u64,
    /// Connections that were reset.
    pub reset: u64,
}

#[derive(Debug)]
pub struct TestProxy {
    address: SocketAddr,
    weather: watch::Sender<NetworkWeather>,
    counts: Arc<ProxyCounters>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct ProxyCounters {
    connections: AtomicU64,
    passed: AtomicU64,
    delayed: AtomicU64,
    swallowed: AtomicU64,
    reset: AtomicU64,
}

impl TestProxy {
    /// Listens on loopback and forwards to `target`, which may not be listening yet.
    pub async fn forward_to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind the proxy");
        let address = listener.local_addr().expect("the proxy's address");
        let (weather, watched) = watch::channel(NetworkWeather::Clear);
        let counts = Arc::new(ProxyCounters::default());
        let accepting = tokio::spawn(accept_connections(listener, target, watched, Arc::clone(&counts)));
        Self { address, weather, counts, accepting }
    }

    /// Puts a proxy in front of the address in `url` (`…//…@ADDRESS/…`) and returns the url through it. In a
    /// single-threaded test the proxy answers only while the test awaits: a task that waits for an answer is
    /// seen to wait, however busy the machine.
    pub async fn on_the_way(url: &str) -> (Self, String) {
        let (before, rest) = url.rsplit_once('@').expect("a url with a user");
        let (target, path) = rest.split_once('/').expect("a url with a path");
        let proxy = Self::forward_to(target.parse().expect("an address")).await;
        let way = format!("{before}@{}/{path}", proxy.address);
        (proxy, way)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the weather for every connection.
    pub fn set_weather(&self, weather: NetworkWeather) {
        self.weather.send_replace(weather);
    }

    pub fn totals_so_far(&self) -> ProxyTotals {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ProxyTotals {
            connections: read(&self.counts.connections),
            passed: read(&self.counts.passed),
            delayed: read(&self.counts.delayed),
            swallowed: read(&self.counts.swallowed),
            reset: read(&self.counts.reset),
        }
    }
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept_connections(
    listener: TcpListener,
    target: SocketAddr,
    weather: watch::Receiver<NetworkWeather>,
    counts: Arc<ProxyCounters>,
) {
    // Dropped with the task that accepts: all connections end with the proxy.
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        counts.connections.fetch_add(1, Ordering::Relaxed);
        connections.spawn(carry_connection(near, target, weather.clone(), Arc::clone(&counts)));
    }
}

/// The connection must be reset.
struct BrokenConnection;

async fn carry_connection(
    mut near: TcpStream,
    target: SocketAddr,
    weather: watch::Receiver<NetworkWeather>,
    counts: Arc<ProxyCounters>,
) {
    let far =
        if *weather.borrow() == NetworkWeather::Cut { None } else { TcpStream::connect(target).await.ok() };
    let Some(mut far) = far else {
        counts.reset.fetch_add(1, Ordering::Relaxed);
        let _ = near.set_zero_linger();
        return;
    };
    for stream in [&near, &far] {
        let _ = stream.set_nodelay(true);
    }
    let ended = {
        let ((near_in, near_out), (far_in, far_out)) = (near.split(), far.split());
        let out = pump_bytes(near_in, far_out, weather.clone(), &counts);
        let back = pump_bytes(far_in, near_out, weather, &counts);
        // The first that breaks ends the other.
        tokio::try_join!(out, back)
    };
    if ended.is_err() {
        counts.reset.fetch_add(1, Ordering::Relaxed);
        // Both sides get a reset instead of an end.
        for stream in [&near, &far] {
            let _ = stream.set_zero_linger();
        }
    }
}

/// Passes bytes one way, as the weather allows, until that side closes.
async fn pump_bytes(
    mut input: ReadHalf<'_>,
    mut output: WriteHalf<'_>,
    mut weather: watch::Receiver<NetworkWeather>,
    counts: &ProxyCounters,
) -> Result<(), BrokenConnection> {
    let mut chunk = vec![0; CHUNK];
    let mut lost = false;
    loop {
        let now = *weather.borrow_and_update();
        match now {
            NetworkWeather::Cut => return Err(BrokenConnection),
            NetworkWeather::Clear | NetworkWeather::Slow(_) | NetworkWeather::Stalled if lost => {
                return Err(BrokenConnection);
            }
            NetworkWeather::Stalled => {
                weather.changed().await.map_err(|_| BrokenConnection)?;
                continue;
            }
            NetworkWeather::Clear | NetworkWeather::Slow(_) | NetworkWeather::Deaf => {}
        }
        let count = tokio::select! {
            read = input.read(&mut chunk) => read.map_err(|_| BrokenConnection)?,
            changed = weather.changed() => {
                changed.map_err(|_| BrokenConnection)?;
                continue;
            }
        };
        if count == 0 {
            // The other direction may still be open.
            let _ = output.shutdown().await;
            return Ok(());
        }
        if let NetworkWeather::Slow(delay) = now {
            counts.delayed.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(delay).await;
        }
        if now == NetworkWeather::Deaf {
            counts.swallowed.fetch_add(count as u64, Ordering::Relaxed);
            lost = true;
            continue;
        }
        output.write_all(&chunk[..count]).await.map_err(|_| BrokenConnection)?;
        counts.passed.fetch_add(count as u64, Ordering::Relaxed);
    }
}

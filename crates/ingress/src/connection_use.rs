//! Usage of one connection: requests in progress, unread answers, and its eviction rank.
//!
//! Shared by the task of the connection, its requests and the registry ([`crate::connections`], which
//! defines idle, proven and the reserve). A request costs a few atomic operations here, and a lock that
//! only requests of the same connection take.
//!
//! Concurrency limit: on an unproven connection at most eight requests are in progress at once; further
//! ones wait for a place, or for the first request with a valid key. An anonymous client therefore cannot
//! hold many unread answers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The clients that share a limit: one IPv4 address, or the /64 from which an IPv6 client can choose
/// addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClientNetwork(IpAddr);

impl ClientNetwork {
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
        })
    }
}

/// The requests that a connection may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionLane {
    /// All requests.
    Main,
    /// Probes only.
    Reserve,
}

/// Marks a request on a reserve connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnReserve;

/// Marks a request beyond the concurrency limit of an unproven connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BeyondUnproven;

/// Eviction order: smaller ranks are evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EvictionRank {
    IdleUnproven,
    BusyUnproven,
    IdleProven,
}

/// Usage of one connection. Shared by its task, its requests and the registry.
#[derive(Debug)]
pub(crate) struct ConnectionUse {
    pub(crate) id: u64,
    pub(crate) network: ClientNetwork,
    pub(crate) lane: ConnectionLane,
    begun: Instant,
    /// Requests whose answer is not complete.
    requests: AtomicUsize,
    /// Milliseconds after `begun` at which the last request ended.
    idle_since: AtomicU64,
    proven: AtomicBool,
    /// Concurrency limit for requests of an unproven connection.
    unproven_places: Semaphore,
    unread: UnreadAnswers,
    evicted: CancellationToken,
}

/// Concurrent requests on an unproven connection. Further ones wait for a place, or for the first valid
/// key.
const UNPROVEN_REQUESTS: usize = 8;
/// Enough permits that no request waits.
const PROVEN_REQUESTS: usize = 1 << 24;

impl ConnectionUse {
    pub(crate) fn new(id: u64, network: ClientNetwork, lane: ConnectionLane, begun: Instant) -> Arc<Self> {
        Arc::new(Self {
            id,
            network,
            lane,
            begun,
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            proven: AtomicBool::new(false),
            unproven_places: Semaphore::new(UNPROVEN_REQUESTS),
            unread: UnreadAnswers::default(),
            evicted: CancellationToken::new(),
        })
    }

    /// Counts a request until the guard is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestInProgress {
        self.requests.fetch_add(1, Ordering::AcqRel);
        RequestInProgress { connection: Arc::clone(self), has_place: false }
    }

    /// Marks the connection as proven: an authenticated caller has used it.
    pub(crate) fn mark_proven(&self) {
        if !self.proven.swap(true, Ordering::AcqRel) {
            self.unproven_places.add_permits(PROVEN_REQUESTS);
        }
    }

    /// Registers a whole answer, which the client has to read.
    pub(crate) fn begin_answer(self: &Arc<Self>) -> AnswerProgress {
        let last_millis = Arc::new(AtomicU64::new(self.elapsed_millis()));
        let id = self.unread.begin_answer(last_millis.clone());
        AnswerProgress { connection: Arc::clone(self), id, last_millis }
    }

    /// Time since the client last took a piece of its slowest whole answer.
    pub(crate) fn unread_for(&self) -> Duration {
        let oldest = self.unread.oldest_millis().unwrap_or(u64::MAX);
        Duration::from_millis(self.elapsed_millis().saturating_sub(oldest))
    }

    fn elapsed_millis(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Acquire)
    }

    /// Time since the last request ended; `None` while one is in progress.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        if self.requests.load(Ordering::Acquire) > 0 {
            return None;
        }
        let since = Duration::from_millis(self.idle_since.load(Ordering::Acquire));
        Some(self.begun.elapsed().saturating_sub(since))
    }

    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// When the connection became idle, or began: an earlier time means longer idle.
    pub(crate) fn idle_from(&self) -> Instant {
        self.begun + Duration::from_millis(self.idle_since.load(Ordering::Acquire))
    }

    /// Evicts the connection in favour of another one.
    pub(crate) fn evict_connection(&self) {
        self.evicted.cancel();
    }

    #[cfg(test)]
    pub(crate) fn is_evicted(&self) -> bool {
        self.evicted.is_cancelled()
    }

    /// Completes when the registry has evicted the connection.
    pub(crate) async fn wait_for_eviction(&self) {
        self.evicted.cancelled().await;
    }

    /// The eviction rank; `None` while the connection must not be evicted. A reserve connection can always
    /// be evicted.
    pub(crate) fn eviction_rank(&self) -> Option<EvictionRank> {
        match (self.idle_for().is_some(), self.is_proven()) {
            (true, false) => Some(EvictionRank::IdleUnproven),
            (true, true) => Some(EvictionRank::IdleProven),
            (false, false) => Some(EvictionRank::BusyUnproven),
            (false, true) => None,
        }
    }

    /// Whether the connection may still be closed after its eviction: a request of an authenticated caller
    /// that began in the meantime is answered first.
    pub(crate) fn gives_way(&self) -> bool {
        self.lane == ConnectionLane::Reserve || self.eviction_rank().is_some()
    }
}

#[cfg(test)]
impl ConnectionUse {
    /// A connection that began `age` ago.
    pub(crate) fn begun_before(age: Duration) -> Arc<Self> {
        let network = ClientNetwork::of(IpAddr::from([10, 0, 0, 1]));
        Self::new(1, network, ConnectionLane::Main, Instant::now().checked_sub(age).unwrap())
    }
}

/// A request that is counted as in progress.
#[derive(Debug)]
pub(crate) struct RequestInProgress {
    connection: Arc<ConnectionUse>,
    has_place: bool,
}

impl RequestInProgress {
    /// Waits for a place among the requests of an unproven connection; returns at once on a proven one.
    /// `false` after `patience` without a place.
    pub(crate) async fn take_place(&mut self, patience: Duration) -> bool {
        if self.connection.is_proven() {
            return true;
        }
        let place = tokio::time::timeout(patience, self.connection.unproven_places.acquire()).await;
        let Ok(Ok(place)) = place else { return false };
        place.forget();
        self.has_place = true;
        true
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let connection = &self.connection;
        if self.has_place {
            connection.unproven_places.add_permits(1);
        }
        connection.idle_since.store(connection.elapsed_millis(), Ordering::Release);
        connection.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// For each whole answer the time of its last taken piece, in milliseconds after the connection began.
#[derive(Debug, Default)]
struct UnreadAnswers(Mutex<(u64, HashMap<u64, Arc<AtomicU64>>)>);

impl UnreadAnswers {
    fn begin_answer(&self, last_millis: Arc<AtomicU64>) -> u64 {
        let (next, answers) = &mut *self.lock();
        *next += 1;
        answers.insert(*next, last_millis);
        *next
    }

    fn oldest_millis(&self) -> Option<u64> {
        self.lock().1.values().map(|last| last.load(Ordering::Relaxed)).min()
    }

    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<u64, Arc<AtomicU64>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A whole answer that is being read.
#[derive(Debug)]
pub(crate) struct AnswerProgress {
    connection: Arc<ConnectionUse>,
    id: u64,
    last_millis: Arc<AtomicU64>,
}

impl AnswerProgress {
    /// Records that the client took a piece.
    pub(crate) fn record_progress(&self) {
        self.last_millis.store(self.connection.elapsed_millis(), Ordering::Relaxed);
    }
}

impl Drop for AnswerProgress {
    fn drop(&mut self) {
        self.connection.unread.lock().1.remove(&self.id);
    }
}

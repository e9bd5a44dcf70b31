//! Open connections: which one has a place, and which one gives way when there is no place left.
//!
//! A connection is *idle* while no request is in progress on it: before its first request, while a head or a
//! handshake is still arriving, and between requests. Pings are no requests. It is *proven* once a request on
//! it came from an identified caller. Every new connection is accepted. At the limit, in total or of one client
//! network, the oldest of those give way that matter least: idle and not proven, then busy and not proven (an anonymous
//! client keeps a connection busy by not reading), then idle and proven. A busy connection of an identified caller never gives way.
//!
//! Where nothing gives way, the new connection is served in the reserve: it gets answers from the probes
//! (`/healthz`, `/readyz`, `/metrics`, the gRPC health check) and 429 from everything else. The oldest
//! connection of a full reserve is closed for the next one. So probes are answered whatever the others do.
//!
//! On a connection that is not proven eight requests are in progress at once; further ones wait for a place, or for the
//! first that brings a valid key. So an anonymous client cannot hold many answers that it does not read.
//!
//! The lock of the registry is taken when a connection begins or ends, and never for a request.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::metrics;
use crate::options::Limits;

/// The clients that share a limit: an IPv4 address, or the /64 that an IPv6 client can choose addresses from.
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

/// What a connection may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionLane {
    /// Everything.
    Main,
    /// Probes alone.
    Reserve,
}

/// Marks a request that came over a connection of the reserve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnReserve;

/// Marks a request beyond those that a connection may have in progress before an identified caller has used it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BeyondUnproven;

/// How readily a connection gives way: the first gives way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionRank {
    IdleUnproven,
    BusyUnproven,
    IdleProven,
}

/// What a connection is doing. Shared by its task, its requests and the registry.
#[derive(Debug)]
pub(crate) struct ConnectionUse {
    id: u64,
    pub(crate) network: ClientNetwork,
    pub(crate) lane: ConnectionLane,
    begun: Instant,
    /// Requests whose answer is not complete.
    requests: AtomicUsize,
    /// Milliseconds after `begun` at which the last request ended.
    idle_since: AtomicU64,
    proven: AtomicBool,
    /// Places for requests that are in progress before an identified caller has used the connection.
    unproven_places: Semaphore,
    unread: UnreadAnswers,
    evicted: CancellationToken,
}

/// Requests in progress on a connection that no identified caller has used. Further ones wait for one of them, or for
/// the first valid key.
const UNPROVEN_REQUESTS: usize = 8;
/// So many that none waits.
const PROVEN_REQUESTS: usize = 1 << 24;

impl ConnectionUse {
    fn new(id: u64, network: ClientNetwork, lane: ConnectionLane, begun: Instant) -> Arc<Self> {
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

    /// A request on this connection came from an identified caller.
    pub(crate) fn prove(&self) {
        if !self.proven.swap(true, Ordering::AcqRel) {
            self.unproven_places.add_permits(PROVEN_REQUESTS);
        }
    }

    /// Notes a whole answer, which has to be read.
    pub(crate) fn begin_answer(self: &Arc<Self>) -> AnswerProgress {
        let last_millis = Arc::new(AtomicU64::new(self.millis()));
        let id = self.unread.begin(last_millis.clone());
        AnswerProgress { connection: Arc::clone(self), id, last_millis }
    }

    /// For how long no piece of some whole answer was taken.
    pub(crate) fn unread_for(&self) -> Duration {
        let oldest = self.unread.oldest_millis().unwrap_or(u64::MAX);
        Duration::from_millis(self.millis().saturating_sub(oldest))
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Acquire)
    }

    /// For how long no request has been in progress; `None` while one is.
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

    /// Ends when the registry has given the place to another connection.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Whether it gives way, and how readily. A connection of the reserve always does.
    fn rank(&self) -> Option<EvictionRank> {
        match (self.idle_for().is_some(), self.is_proven()) {
            (true, false) => Some(EvictionRank::IdleUnproven),
            (true, true) => Some(EvictionRank::IdleProven),
            (false, false) => Some(EvictionRank::BusyUnproven),
            (false, true) => None,
        }
    }

    /// Whether it still gives way now that its place is gone: a request of an identified caller that has begun
    /// meanwhile is answered.
    pub(crate) fn gives_way(&self) -> bool {
        self.lane == ConnectionLane::Reserve || self.rank().is_some()
    }
}

#[cfg(test)]
impl ConnectionUse {
    /// A connection that began so long ago.
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
    /// Waits for a place among the requests of a connection that is not proven; at once if it is. `false` when there
    /// was none in time.
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
        connection.idle_since.store(connection.millis(), Ordering::Release);
        connection.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// When a piece of each whole answer was last taken, in milliseconds after the connection began.
#[derive(Debug, Default)]
struct UnreadAnswers(Mutex<(u64, HashMap<u64, Arc<AtomicU64>>)>);

impl UnreadAnswers {
    fn begin(&self, last_millis: Arc<AtomicU64>) -> u64 {
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
    /// A piece was taken.
    pub(crate) fn advance(&self) {
        self.last_millis.store(self.connection.millis(), Ordering::Relaxed);
    }
}

impl Drop for AnswerProgress {
    fn drop(&mut self) {
        self.connection.unread.lock().1.remove(&self.id);
    }
}

/// All connections of a listener.
#[derive(Debug)]
pub(crate) struct ConnectionRegistry {
    total: usize,
    /// 0: no limit.
    per_address: usize,
    reserve: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    main: HashMap<u64, Arc<ConnectionUse>>,
    reserve: HashMap<u64, Arc<ConnectionUse>>,
    per_network: HashMap<ClientNetwork, usize>,
}

/// Of a limit's connections, so many give way at once: finding the oldest means looking at all.
const EVICTED_SHARE: usize = 128;

impl ConnectionRegistry {
    pub(crate) fn of(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            total: limits.connections.max(1),
            per_address: limits.connections_per_address,
            reserve: limits.connections_reserved.max(1),
            open: Mutex::default(),
        })
    }

    /// A place for a new connection, at the cost of others if need be.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> ConnectionPlace {
        let network = ClientNetwork::of(address);
        let mut open = self.lock();
        let lane = self.make_room(&mut open, network);
        open.next += 1;
        let connection = ConnectionUse::new(open.next, network, lane, Instant::now());
        match lane {
            ConnectionLane::Main => {
                open.main.insert(connection.id, Arc::clone(&connection));
                *open.per_network.entry(network).or_default() += 1;
            }
            ConnectionLane::Reserve => {
                metrics::connection_reserved();
                open.reserve.insert(connection.id, Arc::clone(&connection));
            }
        }
        open.count();
        ConnectionPlace { connection, registry: Arc::clone(self) }
    }

    /// Closes the oldest idle connections when the process has no descriptors left.
    pub(crate) fn shed(&self) {
        self.lock().evict("descriptors", share(self.total), |_| true);
    }

    fn make_room(&self, open: &mut OpenConnections, network: ClientNetwork) -> ConnectionLane {
        let of_network = open.per_network.get(&network).copied().unwrap_or(0);
        let has_room = if self.per_address > 0 && of_network >= self.per_address {
            open.evict("address", share(self.per_address), |one| one.network == network)
        } else {
            open.main.len() < self.total || open.evict("total", share(self.total), |_| true)
        };
        if has_room {
            return ConnectionLane::Main;
        }
        if open.reserve.len() >= self.reserve
            && let Some(oldest) = open.reserve.keys().min().copied()
        {
            open.remove(oldest, "reserve");
        }
        ConnectionLane::Reserve
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn share(limit: usize) -> usize {
    (limit / EVICTED_SHARE).max(1)
}

impl OpenConnections {
    /// Closes up to `most` connections that give way; whether there was one.
    fn evict(&mut self, reason: &'static str, most: usize, within: impl Fn(&ConnectionUse) -> bool) -> bool {
        let candidates = self.main.values().filter(|one| within(one));
        let mut ranked: Vec<_> =
            candidates.filter_map(|one| Some((one.rank()?, one.idle_from(), one.id))).collect();
        // All of a round have the rank of the first: one that matters more gives way only when it must.
        let Some((first, _, _)) = ranked.iter().min().copied() else { return false };
        ranked.retain(|(rank, _, _)| *rank == first);
        ranked.sort_unstable();
        ranked.truncate(most);
        for (_, _, id) in ranked {
            self.remove(id, reason);
        }
        true
    }

    fn remove(&mut self, id: u64, reason: &'static str) {
        let removed = self.main.remove(&id).or_else(|| self.reserve.remove(&id));
        if let Some(connection) = removed {
            self.release(&connection);
            connection.evicted.cancel();
            metrics::connection_evicted(reason);
        }
    }

    fn release(&mut self, connection: &ConnectionUse) {
        if connection.lane == ConnectionLane::Reserve {
            return;
        }
        if let Some(count) = self.per_network.get_mut(&connection.network) {
            *count -= 1;
            if *count == 0 {
                self.per_network.remove(&connection.network);
            }
        }
    }

    fn count(&self) {
        metrics::connections_open(self.main.len() + self.reserve.len());
    }
}

impl ConnectionUse {
    /// When it became idle, or began: the smaller, the longer ago.
    fn idle_from(&self) -> Instant {
        self.begun + Duration::from_millis(self.idle_since.load(Ordering::Acquire))
    }
}

/// The place of an open connection; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    pub(crate) connection: Arc<ConnectionUse>,
    registry: Arc<ConnectionRegistry>,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut open = self.registry.lock();
        let id = self.connection.id;
        let removed = open.main.remove(&id).or_else(|| open.reserve.remove(&id));
        // One that was evicted is not counted any more.
        if removed.is_some() {
            open.release(&self.connection);
        }
        open.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(total: usize, per_address: usize) -> Arc<ConnectionRegistry> {
        ConnectionRegistry::of(&Limits {
            connections: total,
            connections_per_address: per_address,
            connections_reserved: 2,
            ..Limits::default()
        })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_evicted(place: &ConnectionPlace) -> bool {
        place.connection.evicted.is_cancelled()
    }

    #[test]
    fn the_oldest_idle_connection_gives_way_and_one_that_brought_no_key_before_one_that_did() {
        let registry = registry(3, 0);
        let [proven, first, second] = [1, 2, 3].map(|n| registry.admit(address(n)));
        proven.connection.prove();
        let third = registry.admit(address(4));
        assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&proven));
        let _busy = [&second, &third].map(|place| place.connection.begin_request());
        let fourth = registry.admit(address(5));
        assert!(
            is_evicted(&second) && !is_evicted(&proven),
            "a busy one that brought no key gives way first"
        );
        for place in [&third, &fourth] {
            place.connection.prove();
        }
        let _busy_too = fourth.connection.begin_request();
        let _fifth = registry.admit(address(6));
        assert!(is_evicted(&proven), "idle ones with a key give way at last");
    }

    #[test]
    fn busy_connections_of_identified_callers_stay_and_newcomers_go_to_the_reserve() {
        let registry = registry(2, 0);
        let places = [1, 2].map(|n| registry.admit(address(n)));
        let busy = places.each_ref().map(|place| {
            place.connection.prove();
            place.connection.begin_request()
        });
        let reserve: Vec<_> = (3..6).map(|n| registry.admit(address(n))).collect();
        assert!(reserve.iter().all(|place| place.connection.lane == ConnectionLane::Reserve));
        assert!(is_evicted(&reserve[0]) && !is_evicted(&reserve[1]), "the oldest of the reserve leaves");
        assert!(places.iter().all(|place| !is_evicted(place)));
        drop(busy);
        assert_eq!(registry.admit(address(9)).connection.lane, ConnectionLane::Main);
    }

    #[test]
    fn an_address_at_its_limit_displaces_its_own_connections_alone() {
        let registry = registry(10, 2);
        let other = registry.admit(address(1));
        let [first, second] = [2, 2].map(|n| registry.admit(address(n)));
        let third = registry.admit(address(2));
        assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&other));
        for place in [&second, &third] {
            place.connection.prove();
            std::mem::forget(place.connection.begin_request());
        }
        assert_eq!(registry.admit(address(2)).connection.lane, ConnectionLane::Reserve);
        drop(second);
        assert_eq!(registry.admit(address(2)).connection.lane, ConnectionLane::Main);
    }

    #[test]
    fn one_client_of_ipv6_is_one_network() {
        let of = |text: &str| ClientNetwork::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }

    #[test]
    fn a_place_that_was_given_back_is_free_once() {
        let registry = registry(1, 1);
        let first = registry.admit(address(1));
        let second = registry.admit(address(1));
        assert!(is_evicted(&first));
        drop(first);
        assert_eq!(registry.lock().per_network.len(), 1);
        drop(second);
        let open = registry.lock();
        assert!(open.main.is_empty() && open.per_network.is_empty());
    }
}

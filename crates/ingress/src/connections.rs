//! Connection registry: admission, and eviction at the limit.
//!
//! A connection is *idle* while it has no request in progress: before its first request, while a head or a
//! handshake is still arriving, and between requests. Pings are not requests. A connection is *proven* once
//! a request on it came from an authenticated caller. Every new connection is accepted. At the limit, in
//! total or per client network, the oldest of the least important connections are evicted: idle and
//! unproven first, then busy and unproven (an anonymous client keeps a connection busy by not reading),
//! then idle and proven. A busy connection of an authenticated caller is never evicted.
//!
//! When no connection can be evicted, the new one is served in the reserve: probes (`/healthz`, `/readyz`,
//! `/metrics`, the gRPC health check) are answered, everything else gets 429. The oldest connection of a
//! full reserve is closed for the next one. Probes are therefore answered under any load.
//!
//! The lock of the registry is taken when a connection begins or ends, and never for a request.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::connection_use::{ClientNetwork, ConnectionLane, ConnectionUse};
use crate::metrics;
use crate::options::IngressLimits;

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

/// One eviction closes `limit / EVICTED_SHARE` connections, because finding the oldest scans all of them.
const EVICTED_SHARE: usize = 128;

impl ConnectionRegistry {
    pub(crate) fn of(limits: &IngressLimits) -> Arc<Self> {
        Arc::new(Self {
            total: limits.connections.max(1),
            per_address: limits.connections_per_address,
            reserve: limits.connections_reserved.max(1),
            open: Mutex::default(),
        })
    }

    /// Admits a new connection, evicting others if necessary.
    pub(crate) fn admit_connection(self: &Arc<Self>, address: IpAddr) -> ConnectionPlace {
        let network = ClientNetwork::of(address);
        let mut open = self.lock_open();
        let lane = self.make_room(&mut open, network);
        open.next += 1;
        let connection = ConnectionUse::new(open.next, network, lane, Instant::now());
        match lane {
            ConnectionLane::Main => {
                open.main.insert(connection.id, Arc::clone(&connection));
                *open.per_network.entry(network).or_default() += 1;
            }
            ConnectionLane::Reserve => {
                metrics::record_reserved();
                open.reserve.insert(connection.id, Arc::clone(&connection));
            }
        }
        open.record_count();
        ConnectionPlace { connection, registry: Arc::clone(self) }
    }

    /// Load shedding: evicts the oldest idle connections when the process has no file descriptors left.
    pub(crate) fn shed_idle(&self) {
        self.lock_open().evict_ranked("descriptors", eviction_count(self.total), |_| true);
    }

    fn make_room(&self, open: &mut OpenConnections, network: ClientNetwork) -> ConnectionLane {
        let of_network = open.per_network.get(&network).copied().unwrap_or(0);
        let has_room = if self.per_address > 0 && of_network >= self.per_address {
            open.evict_ranked("address", eviction_count(self.per_address), |one| one.network == network)
        } else {
            open.main.len() < self.total || open.evict_ranked("total", eviction_count(self.total), |_| true)
        };
        if has_room {
            return ConnectionLane::Main;
        }
        if open.reserve.len() >= self.reserve
            && let Some(oldest) = open.reserve.keys().min().copied()
        {
            open.remove_evicted(oldest, "reserve");
        }
        ConnectionLane::Reserve
    }

    fn lock_open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn eviction_count(limit: usize) -> usize {
    (limit / EVICTED_SHARE).max(1)
}

impl OpenConnections {
    /// Evicts up to `most` connections among `within`; returns whether there was one.
    fn evict_ranked(
        &mut self,
        reason: &'static str,
        most: usize,
        within: impl Fn(&ConnectionUse) -> bool,
    ) -> bool {
        let candidates = self.main.values().filter(|one| within(one));
        let mut ranked: Vec<_> =
            candidates.filter_map(|one| Some((one.eviction_rank()?, one.idle_from(), one.id))).collect();
        // One round evicts a single rank, the lowest: a higher rank is evicted only when necessary.
        let Some((first, _, _)) = ranked.iter().min().copied() else { return false };
        ranked.retain(|(rank, _, _)| *rank == first);
        ranked.sort_unstable();
        ranked.truncate(most);
        for (_, _, id) in ranked {
            self.remove_evicted(id, reason);
        }
        true
    }

    fn remove_evicted(&mut self, id: u64, reason: &'static str) {
        let removed = self.main.remove(&id).or_else(|| self.reserve.remove(&id));
        if let Some(connection) = removed {
            self.release_place(&connection);
            connection.evict_connection();
            metrics::record_eviction(reason);
        }
    }

    fn release_place(&mut self, connection: &ConnectionUse) {
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

    fn record_count(&self) {
        metrics::set_open_connections(self.main.len() + self.reserve.len());
    }
}

/// The place of an open connection; released on drop.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    pub(crate) connection: Arc<ConnectionUse>,
    registry: Arc<ConnectionRegistry>,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut open = self.registry.lock_open();
        let id = self.connection.id;
        let removed = open.main.remove(&id).or_else(|| open.reserve.remove(&id));
        // An evicted connection has been released already.
        if removed.is_some() {
            open.release_place(&self.connection);
        }
        open.record_count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(total: usize, per_address: usize) -> Arc<ConnectionRegistry> {
        ConnectionRegistry::of(&IngressLimits {
            connections: total,
            connections_per_address: per_address,
            connections_reserved: 2,
            ..IngressLimits::default()
        })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_evicted(place: &ConnectionPlace) -> bool {
        place.connection.is_evicted()
    }

    #[test]
    fn unproven_connections_are_evicted_first() {
        let registry = registry(3, 0);
        let [proven, first, second] = [1, 2, 3].map(|n| registry.admit_connection(address(n)));
        proven.connection.mark_proven();
        let third = registry.admit_connection(address(4));
        assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&proven));
        let _busy = [&second, &third].map(|place| place.connection.begin_request());
        let fourth = registry.admit_connection(address(5));
        assert!(
            is_evicted(&second) && !is_evicted(&proven),
            "a busy one that brought no key gives way first"
        );
        for place in [&third, &fourth] {
            place.connection.mark_proven();
        }
        let _busy_too = fourth.connection.begin_request();
        let _fifth = registry.admit_connection(address(6));
        assert!(is_evicted(&proven), "idle ones with a key give way at last");
    }

    #[test]
    fn proven_busy_connections_are_never_evicted() {
        let registry = registry(2, 0);
        let places = [1, 2].map(|n| registry.admit_connection(address(n)));
        let busy = places.each_ref().map(|place| {
            place.connection.mark_proven();
            place.connection.begin_request()
        });
        let reserve: Vec<_> = (3..6).map(|n| registry.admit_connection(address(n))).collect();
        assert!(reserve.iter().all(|place| place.connection.lane == ConnectionLane::Reserve));
        assert!(is_evicted(&reserve[0]) && !is_evicted(&reserve[1]), "the oldest of the reserve leaves");
        assert!(places.iter().all(|place| !is_evicted(place)));
        drop(busy);
        assert_eq!(registry.admit_connection(address(9)).connection.lane, ConnectionLane::Main);
    }

    #[test]
    fn address_limit_evicts_own_connections() {
        let registry = registry(10, 2);
        let other = registry.admit_connection(address(1));
        let [first, second] = [2, 2].map(|n| registry.admit_connection(address(n)));
        let third = registry.admit_connection(address(2));
        assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&other));
        for place in [&second, &third] {
            place.connection.mark_proven();
            std::mem::forget(place.connection.begin_request());
        }
        assert_eq!(registry.admit_connection(address(2)).connection.lane, ConnectionLane::Reserve);
        drop(second);
        assert_eq!(registry.admit_connection(address(2)).connection.lane, ConnectionLane::Main);
    }

    #[test]
    fn ipv6_prefix_is_one_network() {
        let of = |text: &str| ClientNetwork::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }

    #[test]
    fn evicted_place_is_released_once() {
        let registry = registry(1, 1);
        let first = registry.admit_connection(address(1));
        let second = registry.admit_connection(address(1));
        assert!(is_evicted(&first));
        drop(first);
        assert_eq!(registry.lock_open().per_network.len(), 1);
        drop(second);
        let open = registry.lock_open();
        assert!(open.main.is_empty() && open.per_network.is_empty());
    }
}

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
use crate::options::Limits;

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
    pub(crate) fn of(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            total: limits.connections.max(1),
            per_address: limits.connections_per_address,
            reserve: limits.connections_reserved.max(1),
            open: Mutex::default(),
        })
    }

    /// Admits a new connection, evicting others if necessary.
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

    /// Load shedding: evicts the oldest idle connections when the process has no file descriptors left.
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
    /// Evicts up to `most` connections among `within`; returns whether there was one.
    fn evict(&mut self, reason: &'static str, most: usize, within: impl Fn(&ConnectionUse) -> bool) -> bool {
        let candidates = self.main.values().filter(|one| within(one));
        let mut ranked: Vec<_> =
            candidates.filter_map(|one| Some((one.rank()?, one.idle_from(), one.id))).collect();
        // One round evicts a single rank, the lowest: a higher rank is evicted only when necessary.
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
            connection.evict();
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

/// The place of an open connection; released on drop.
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
        // An evicted connection has been released already.
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
        place.connection.is_evicted()
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

//! Queue of key lookups, bounded per client network. Pure.
//!
//! A client without a valid key can send any number of guesses, each a key that is new to this process.
//! Guesses arrive over connections that are not proven, and one client network may use a quarter of the
//! places for those: guesses from one network leave room for honest keys from others. Callers on proven
//! connections have places of their own and are looked up first.

use crate::connection_use::ClientNetwork;

/// Origin of a key: a proven connection (a valid key was used on it), or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOrigin {
    Proven,
    Unproven(ClientNetwork),
}

/// Places for keys from proven connections.
const PROVEN: usize = 1_024;
/// Places for keys from unproven connections, in total and per client network.
const UNPROVEN: usize = 4_096;
const OF_NETWORK: usize = UNPROVEN / 4;

/// Waiting callers, in the order of their arrival.
#[derive(Debug)]
pub(super) struct WaitingLookups<T> {
    proven: Vec<T>,
    unproven: Vec<(ClientNetwork, T)>,
}

impl<T> Default for WaitingLookups<T> {
    fn default() -> Self {
        Self { proven: Vec::new(), unproven: Vec::new() }
    }
}

impl<T> WaitingLookups<T> {
    /// Adds a caller, unless its origin has used all its places.
    pub(super) fn push_waiter(&mut self, origin: KeyOrigin, waiting: T) -> Result<(), T> {
        match origin {
            KeyOrigin::Proven if self.proven.len() < PROVEN => {
                self.proven.push(waiting);
                Ok(())
            }
            KeyOrigin::Unproven(network) if self.has_room_for(network) => {
                self.unproven.push((network, waiting));
                Ok(())
            }
            KeyOrigin::Proven | KeyOrigin::Unproven(_) => Err(waiting),
        }
    }

    /// Takes up to `most`, those from proven connections first.
    pub(super) fn take_waiters(&mut self, most: usize) -> Vec<T> {
        let first = self.proven.len().min(most);
        let rest = self.unproven.len().min(most - first);
        let unproven = self.unproven.drain(..rest).map(|(_, waiting)| waiting);
        self.proven.drain(..first).chain(unproven).collect()
    }

    /// Drops callers that wait no longer.
    pub(super) fn retain_waiters(&mut self, mut waits: impl FnMut(&T) -> bool) {
        self.proven.retain(&mut waits);
        self.unproven.retain(|(_, waiting)| waits(waiting));
    }

    fn has_room_for(&self, network: ClientNetwork) -> bool {
        self.unproven.len() < UNPROVEN
            && self.unproven.iter().filter(|(of, _)| *of == network).count() < OF_NETWORK
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn from(last: u8) -> KeyOrigin {
        KeyOrigin::Unproven(ClientNetwork::of(IpAddr::from([10, 0, 0, last])))
    }

    fn fill(waiting: &mut WaitingLookups<u8>, origin: KeyOrigin) -> usize {
        (0..).take_while(|_| waiting.push_waiter(origin, 0).is_ok()).count()
    }

    #[test]
    fn key_guesses_are_bounded_per_network() {
        let mut waiting = WaitingLookups::default();
        assert_eq!(fill(&mut waiting, from(1)), OF_NETWORK);
        assert_eq!(waiting.push_waiter(from(2), 7), Ok(()));
        fill(&mut waiting, from(3));
        fill(&mut waiting, from(4));
        assert_eq!(fill(&mut waiting, from(5)), OF_NETWORK - 1, "all places are taken");
        assert_eq!(waiting.push_waiter(from(6), 7), Err(7));
        assert_eq!(fill(&mut waiting, KeyOrigin::Proven), PROVEN, "they have places of their own");
    }

    #[test]
    fn proven_connections_look_up_first() {
        let mut waiting = WaitingLookups::default();
        for number in [1, 2, 3] {
            waiting.push_waiter(from(1), number).unwrap();
        }
        waiting.push_waiter(KeyOrigin::Proven, 9).unwrap();
        assert_eq!(waiting.take_waiters(2), [9, 1]);
        waiting.retain_waiters(|number| *number != 2);
        assert_eq!(waiting.take_waiters(10), [3]);
    }
}

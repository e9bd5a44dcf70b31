//! Cache of decoded execution states between two visits (LRU, bounded by bytes).
//!
//! A visit takes a state out, so that it has only one user, and puts the new one back after its commit; a
//! failure in between leaves nothing stale behind. The store checks the seq, so an outdated state costs one
//! reload and nothing more.

use std::sync::{Mutex, PoisonError};

use lru::LruCache;
use millstream_core::id::{AcceptNo, ExecutionKey};
use millstream_core::log::State;

/// Cost of an entry besides its context.
const OVERHEAD: usize = 512;
/// Approximate cost of a graph node.
const NODE: usize = 768;

#[derive(Debug)]
pub(crate) struct States {
    inner: Mutex<Inner>,
    capacity: usize,
}

#[derive(Debug)]
struct Inner {
    states: LruCache<ExecutionKey, (AcceptNo, State)>,
    bytes: usize,
}

impl States {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { inner: Mutex::new(Inner { states: LruCache::unbounded(), bytes: 0 }), capacity: bytes }
    }

    /// The state, with the position of its execution: an id may be used again.
    pub(crate) fn take(&self, execution: &ExecutionKey) -> Option<(AcceptNo, State)> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (position, state) = inner.states.pop(execution)?;
        inner.bytes = inner.bytes.saturating_sub(cost(&state));
        Some((position, state))
    }

    pub(crate) fn put(&self, execution: ExecutionKey, position: AcceptNo, state: State) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.bytes += cost(&state);
        if let Some((_, old)) = inner.states.put(execution, (position, state)) {
            inner.bytes = inner.bytes.saturating_sub(cost(&old));
        }
        while inner.bytes > self.capacity {
            let Some((_, (_, oldest))) = inner.states.pop_lru() else { break };
            inner.bytes = inner.bytes.saturating_sub(cost(&oldest));
        }
    }
}

fn cost(state: &State) -> usize {
    let nodes = state.graph.as_ref().map_or(0, |graph| graph.nodes.len());
    OVERHEAD + state.context_bytes() + nodes * NODE
}

#[cfg(test)]
mod tests {
    use millstream_core::id::{ExecutionId, Name, Seq, TenantId};
    use millstream_core::log::{Context, FORMAT};
    use millstream_core::status::Phase;
    use millstream_core::time::Timestamp;

    use super::*;

    fn key(id: &str) -> ExecutionKey {
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(id).unwrap() }
    }

    fn state(seq: i64) -> State {
        State {
            format: FORMAT,
            seq: Seq(seq),
            state: Name::parse("s").unwrap(),
            entered_seq: Seq(1),
            phase: Phase::Active,
            reason: None,
            context: Context::new(),
            at: Timestamp::EPOCH,
            parent: None,
            correlation: None,
            graph: None,
        }
    }

    #[test]
    fn a_state_is_given_out_once() {
        let states = States::with_capacity(1 << 20);
        states.put(key("a"), AcceptNo(7), state(3));
        let (position, taken) = states.take(&key("a")).unwrap();
        assert_eq!((position, taken.seq), (AcceptNo(7), Seq(3)));
        assert!(states.take(&key("a")).is_none());
    }

    #[test]
    fn the_least_recent_goes_when_the_bytes_are_used_up() {
        let states = States::with_capacity(2 * (OVERHEAD + 2));
        for id in ["a", "b", "c"] {
            states.put(key(id), AcceptNo(1), state(1));
        }
        assert!(states.take(&key("a")).is_none());
        assert!(states.take(&key("b")).is_some());
        assert!(states.take(&key("c")).is_some());
        assert_eq!(states.inner.lock().unwrap().bytes, 0);
    }
}

//! Cache of decoded execution states between two visits (LRU, bounded by bytes).
//!
//! A visit takes a state out, so that it has only one user, and puts the new one back after its commit; a
//! failure in between leaves nothing stale behind. The store checks the seq, so an outdated state costs one
//! reload and nothing more.

use std::sync::{Mutex, PoisonError};

use lru::LruCache;
use millstream_model::id::{AcceptNo, ExecutionKey};
use millstream_workflow::log::ExecutionState;

/// Cost of an entry besides its context.
const OVERHEAD: usize = 512;
/// Approximate cost of a graph node.
const NODE: usize = 768;

#[derive(Debug)]
pub(crate) struct StateCache {
    inner: Mutex<StateCacheInner>,
    capacity: usize,
}

#[derive(Debug)]
struct StateCacheInner {
    states: LruCache<ExecutionKey, (AcceptNo, ExecutionState)>,
    bytes: usize,
}

impl StateCache {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self {
            inner: Mutex::new(StateCacheInner { states: LruCache::unbounded(), bytes: 0 }),
            capacity: bytes,
        }
    }

    /// The state, with the position of its execution: an id may be used again.
    pub(crate) fn take_state(&self, execution: &ExecutionKey) -> Option<(AcceptNo, ExecutionState)> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (position, state) = inner.states.pop(execution)?;
        inner.bytes = inner.bytes.saturating_sub(state_cost(&state));
        Some((position, state))
    }

    pub(crate) fn put_state(&self, execution: ExecutionKey, position: AcceptNo, state: ExecutionState) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.bytes += state_cost(&state);
        if let Some((_, old)) = inner.states.put(execution, (position, state)) {
            inner.bytes = inner.bytes.saturating_sub(state_cost(&old));
        }
        while inner.bytes > self.capacity {
            let Some((_, (_, oldest))) = inner.states.pop_lru() else { break };
            inner.bytes = inner.bytes.saturating_sub(state_cost(&oldest));
        }
    }
}

fn state_cost(state: &ExecutionState) -> usize {
    let nodes = state.graph.as_ref().map_or(0, |graph| graph.nodes.len());
    OVERHEAD + state.context_bytes() + nodes * NODE
}

#[cfg(test)]
mod tests {
    use millstream_model::context::ExecutionContext;
    use millstream_model::id::{ExecutionId, Name, Seq, TenantId};
    use millstream_model::status::ExecutionPhase;
    use millstream_model::time::Timestamp;
    use millstream_workflow::log::FORMAT;

    use super::*;

    fn key(id: &str) -> ExecutionKey {
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(id).unwrap() }
    }

    fn state(seq: i64) -> ExecutionState {
        ExecutionState {
            format: FORMAT,
            seq: Seq(seq),
            state: Name::parse("s").unwrap(),
            entered_seq: Seq(1),
            phase: ExecutionPhase::Active,
            reason: None,
            context: ExecutionContext::new(),
            at: Timestamp::EPOCH,
            parent: None,
            correlation: None,
            graph: None,
        }
    }

    #[test]
    fn cached_state_is_taken_once() {
        let states = StateCache::with_capacity(1 << 20);
        states.put_state(key("a"), AcceptNo(7), state(3));
        let (position, taken) = states.take_state(&key("a")).unwrap();
        assert_eq!((position, taken.seq), (AcceptNo(7), Seq(3)));
        assert!(states.take_state(&key("a")).is_none());
    }

    #[test]
    fn state_cache_evicts_least_recent() {
        let states = StateCache::with_capacity(2 * (OVERHEAD + 2));
        for id in ["a", "b", "c"] {
            states.put_state(key(id), AcceptNo(1), state(1));
        }
        assert!(states.take_state(&key("a")).is_none());
        assert!(states.take_state(&key("b")).is_some());
        assert!(states.take_state(&key("c")).is_some());
        assert_eq!(states.inner.lock().unwrap().bytes, 0);
    }
}

//! Timers that have come due become events, exactly once.

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{EventId, ExecutionKey};
use millstream_model::time::Timestamp;

use crate::StoreResult;

#[async_trait::async_trait]
pub trait TimerStore: Send + Sync {
    /// Turn up to `ids.len()` due timers into undecided events, in one transaction: the timer row is removed,
    /// the event row inserted (`Origin::Timer`, actor `timer`, payload `null`), in order of `fire_at`. `ids`
    /// are the ids to use, in that order. Returns the execution of each fired timer, in the same order, to be
    /// rung: one with two due timers occurs twice. Safe to call concurrently.
    async fn fire_due(&self, ids: &[EventId], now: Timestamp) -> StoreResult<Vec<ExecutionKey>>;

    /// When the next timer, or the next `Ready` action of these queues, comes due (perhaps in the past), so
    /// that a worker can sleep until then. Ends of leases are not included.
    async fn next_due(&self, queues: &[ActionQueue]) -> StoreResult<Option<Timestamp>>;
}

//! Cache of the tasks that this process handed out lately, so that a report does not need to read the task
//! first.
//!
//! A lease is immutable within its epoch: attempt, event and input do not change. The store checks whether
//! it is still held when the report is written. A task that is not cached (handed out by another process,
//! or long ago) is read from the store.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use millstream_model::id::{ActionKey, DefinitionRef, Epoch, EventId};
use millstream_model::time::Timestamp;
use millstream_store::action_store::LeasedAction;
use millstream_store::views::ActionRecord;

/// A few megabytes; covers the tasks that the workers of one process hold.
const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(8_191);

/// A task that a worker holds.
#[derive(Debug, Clone)]
pub(crate) struct HeldTask {
    pub(crate) key: ActionKey,
    pub(crate) revision: i32,
    pub(crate) token: Epoch,
    pub(crate) event_id: EventId,
    pub(crate) attempts: i32,
    pub(crate) ready_at: Option<Timestamp>,
    /// `None`: to be looked up by the execution.
    pub(crate) definition: Option<DefinitionRef>,
    pub(crate) traceparent: Option<String>,
}

impl From<&LeasedAction> for HeldTask {
    fn from(action: &LeasedAction) -> Self {
        Self {
            key: action.lease.key.clone(),
            revision: action.revision,
            token: action.lease.epoch,
            event_id: action.event_id,
            attempts: action.attempt,
            ready_at: Some(action.ready_at),
            definition: Some(action.definition.clone()),
            traceparent: action.traceparent.clone(),
        }
    }
}

impl From<ActionRecord> for HeldTask {
    fn from(view: ActionRecord) -> Self {
        Self {
            key: view.key,
            revision: view.revision,
            token: view.epoch,
            event_id: view.event_id,
            attempts: view.attempts,
            ready_at: view.ready_at,
            definition: None,
            traceparent: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct HandedOutTasks(Mutex<LruCache<ActionKey, HeldTask>>);

impl Default for HandedOutTasks {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl HandedOutTasks {
    pub(crate) fn put_task(&self, held: HeldTask) {
        self.lock().put(held.key.clone(), held);
    }

    /// The task, if this process handed it out under this token.
    pub(crate) fn held_under_token(&self, key: &ActionKey, revision: i32, token: Epoch) -> Option<HeldTask> {
        let mut lock = self.lock();
        lock.get(key).filter(|held| held.revision == revision && held.token == token).cloned()
    }

    /// Removes a task that is over or was never leased.
    pub(crate) fn forget_task(&self, key: &ActionKey) {
        self.lock().pop(key);
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<ActionKey, HeldTask>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

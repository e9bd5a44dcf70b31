//! What this door handed out lately, so that a word about it needs no question to the store first.
//!
//! A lease stays what it was for as long as its epoch does: the attempt, the event and the input do not
//! change under it. Whether it is still held is the store's to say, and it says so when the word is written.
//! What is not remembered here (another door handed it out, or it was long ago) is asked for.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use millstream_core::id::{ActionKey, DefinitionRef, Epoch, EventId};
use millstream_core::time::Timestamp;
use millstream_store::action_store::LeasedAction;
use millstream_store::views::ActionView;

/// A few megabytes, and as many tasks as the workers of one door have in hand.
const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(8_191);

/// A task in a worker's hands.
#[derive(Debug, Clone)]
pub(crate) struct Held {
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

impl From<&LeasedAction> for Held {
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

impl From<ActionView> for Held {
    fn from(view: ActionView) -> Self {
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
pub(crate) struct Handed(Mutex<LruCache<ActionKey, Held>>);

impl Default for Handed {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Handed {
    pub(crate) fn put(&self, held: Held) {
        self.lock().put(held.key.clone(), held);
    }

    /// If it was handed out here under this token.
    pub(crate) fn get(&self, key: &ActionKey, revision: i32, token: Epoch) -> Option<Held> {
        let mut lock = self.lock();
        lock.get(key).filter(|held| held.revision == revision && held.token == token).cloned()
    }

    /// It is over, or was never so.
    pub(crate) fn forget(&self, key: &ActionKey) {
        self.lock().pop(key);
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<ActionKey, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

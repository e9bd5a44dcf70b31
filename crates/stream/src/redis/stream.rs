//! The Redis handle that implements every trait of this crate.

use std::sync::{Arc, OnceLock};

use super::RedisOptions;
use super::connection::RedisLink;
use super::keys::RedisKeys;
use super::locks::RedisLockScripts;
use super::reclaim::ReclaimCursors;
use super::remove_consumers::RedisRetireScript;
use super::script::RedisScript;
use super::subscriber::RedisSubscriber;
use super::windows::RedisWindowScripts;
use crate::StreamResult;

pub struct RedisStream {
    pub(super) link: Arc<RedisLink>,
    pub(super) keys: RedisKeys,
    pub(super) lane_capacity: usize,
    pub(super) locks: RedisLockScripts,
    pub(super) windows: RedisWindowScripts,
    pub(super) refresh: RedisScript,
    pub(super) retire: RedisRetireScript,
    pub(super) cursors: ReclaimCursors,
    /// Started by the first listener; ends with this handle.
    pub(super) subscriber: OnceLock<RedisSubscriber>,
}

impl RedisStream {
    /// Prepares the connections and opens none, so that a role can start while Redis is away; the first call
    /// of any method connects. `Unusable` if the URL is invalid.
    pub fn connect(url: &str, options: RedisOptions) -> StreamResult<Arc<Self>> {
        Ok(Arc::new(Self {
            link: Arc::new(RedisLink::new(url, &options)?),
            keys: RedisKeys::new(&options.prefix),
            lane_capacity: options.lane_capacity,
            locks: RedisLockScripts::default(),
            windows: RedisWindowScripts::default(),
            refresh: RedisScript::new(super::doorbells::REFRESH),
            retire: RedisRetireScript::default(),
            cursors: ReclaimCursors::default(),
            subscriber: OnceLock::new(),
        }))
    }
}

impl std::fmt::Debug for RedisStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStream").field("keys", &self.keys).finish_non_exhaustive()
    }
}

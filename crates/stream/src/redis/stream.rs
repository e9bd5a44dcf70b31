//! The Redis handle that implements every trait of this crate.

use std::sync::{Arc, OnceLock};

use super::RedisOptions;
use super::keys::Keys;
use super::link::Link;
use super::locks::LockScripts;
use super::reclaim::Cursors;
use super::retire::RetireScript;
use super::script::Script;
use super::subscriber::Subscriber;
use super::windows::WindowScripts;
use crate::Result;

pub struct RedisStream {
    pub(super) link: Arc<Link>,
    pub(super) keys: Keys,
    pub(super) lane_capacity: usize,
    pub(super) locks: LockScripts,
    pub(super) windows: WindowScripts,
    pub(super) refresh: Script,
    pub(super) retire: RetireScript,
    pub(super) cursors: Cursors,
    /// Started by the first listener; ends with this handle.
    pub(super) subscriber: OnceLock<Subscriber>,
}

impl RedisStream {
    /// Prepares the connections and opens none, so that a role can start while Redis is away; the first call
    /// of any method connects. `Unusable` if the URL is invalid.
    pub fn connect(url: &str, options: RedisOptions) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            link: Arc::new(Link::new(url, &options)?),
            keys: Keys::new(&options.prefix),
            lane_capacity: options.lane_capacity,
            locks: LockScripts::default(),
            windows: WindowScripts::default(),
            refresh: Script::new(super::doorbells::REFRESH),
            retire: RetireScript::default(),
            cursors: Cursors::default(),
            subscriber: OnceLock::new(),
        }))
    }
}

impl std::fmt::Debug for RedisStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStream").field("keys", &self.keys).finish_non_exhaustive()
    }
}

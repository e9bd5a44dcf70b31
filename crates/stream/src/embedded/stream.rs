//! The handle that implements every trait of this crate within the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_model::entropy::Entropy;
use millstream_model::lane::{LANES, Lane};
use tokio::sync::{Notify, broadcast};

use super::lane::EmbeddedLaneQueue;
use super::locks::EmbeddedLockTable;
use crate::announcement::Announcement;

/// Announcements that a slow listener may lag behind before it loses some and reads the store instead.
const BACKLOG: usize = 4_096;

#[derive(Debug)]
pub struct EmbeddedStream {
    pub(super) bells: Arc<EmbeddedDoorbells>,
    pub(super) locks: EmbeddedLockTable,
    pub(super) news: broadcast::Sender<Announcement>,
    pub(super) generation: String,
}

/// State shared by readers and the handle.
#[derive(Debug)]
pub(super) struct EmbeddedDoorbells {
    /// By lane number. One mutex for all: it is held for microseconds, never across an await.
    lanes: Mutex<Vec<EmbeddedLaneQueue>>,
    pub(super) rung: Notify,
}

impl EmbeddedStream {
    /// An empty stream with a new generation.
    pub fn new(entropy: &dyn Entropy) -> Arc<Self> {
        let lanes = Mutex::new((0..LANES).map(|_| EmbeddedLaneQueue::default()).collect());
        Arc::new(Self {
            bells: Arc::new(EmbeddedDoorbells { lanes, rung: Notify::new() }),
            locks: EmbeddedLockTable::default(),
            news: broadcast::channel(BACKLOG).0,
            generation: format!("{:016x}{:016x}", entropy.next_u64(), entropy.next_u64()),
        })
    }
}

impl EmbeddedDoorbells {
    /// Ignores poisoning: a panic while the lock was held can at worst lose doorbells.
    pub(super) fn lock_lanes(&self) -> MutexGuard<'_, Vec<EmbeddedLaneQueue>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn queue_of_lane(lanes: &mut [EmbeddedLaneQueue], lane: Lane) -> &mut EmbeddedLaneQueue {
    &mut lanes[usize::from(lane.number())]
}

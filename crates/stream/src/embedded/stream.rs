//! The handle that implements every trait of this crate within the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_core::entropy::Entropy;
use millstream_core::lane::{LANES, Lane};
use tokio::sync::{Notify, broadcast};

use super::lane::LaneQueue;
use super::locks::LockTable;
use crate::announce::News;

/// Announcements that a slow listener may lag behind before it loses some and reads the store instead.
const BACKLOG: usize = 4_096;

#[derive(Debug)]
pub struct EmbeddedStream {
    pub(super) bells: Arc<Bells>,
    pub(super) locks: LockTable,
    pub(super) news: broadcast::Sender<News>,
    pub(super) generation: String,
}

/// State shared by readers and the handle.
#[derive(Debug)]
pub(super) struct Bells {
    /// By lane number. One mutex for all: it is held for microseconds, never across an await.
    lanes: Mutex<Vec<LaneQueue>>,
    pub(super) rung: Notify,
}

impl EmbeddedStream {
    /// An empty stream with a new generation.
    pub fn new(entropy: &dyn Entropy) -> Arc<Self> {
        let lanes = Mutex::new((0..LANES).map(|_| LaneQueue::default()).collect());
        Arc::new(Self {
            bells: Arc::new(Bells { lanes, rung: Notify::new() }),
            locks: LockTable::default(),
            news: broadcast::channel(BACKLOG).0,
            generation: format!("{:016x}{:016x}", entropy.next_u64(), entropy.next_u64()),
        })
    }
}

impl Bells {
    /// Ignores poisoning: a panic while the lock was held can at worst lose doorbells.
    pub(super) fn lanes(&self) -> MutexGuard<'_, Vec<LaneQueue>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn queue(lanes: &mut [LaneQueue], lane: Lane) -> &mut LaneQueue {
    &mut lanes[usize::from(lane.number())]
}

//! Announcements: a best-effort word that something was committed.
//!
//! `Prefer: wait` and tail listen to them and read the store again every 500 ms in case one is lost.

use millstream_core::id::{EventId, ExecutionKey, Seq};
use tokio::sync::broadcast;

use crate::Result;

#[async_trait::async_trait]
pub trait Announcer: Send + Sync {
    /// Tell everybody, in one round trip.
    async fn announce(&self, news: &[News]) -> Result<()>;

    /// Hear everything from now on. A slow listener misses some (`Lagged`) and reads the store.
    async fn listen(&self) -> Result<broadcast::Receiver<News>>;
}

/// Something about an execution was committed: a transition, a verdict on an event, a settlement, or work
/// for external workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    pub execution: ExecutionKey,
    pub seq: Seq,
    pub event: Option<EventId>,
}

impl News {
    /// Tasks of the execution are ready for whoever serves their queues.
    pub fn work(execution: ExecutionKey) -> Self {
        Self { execution, seq: Seq(0), event: None }
    }

    pub fn is_work(&self) -> bool {
        self.seq == Seq(0) && self.event.is_none()
    }
}

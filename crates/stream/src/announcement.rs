//! Announcements: best-effort notification (pub/sub) that something was committed.
//!
//! `Prefer: wait` and tail subscribe to them, and re-read the store every 500 ms in case one is lost.

use millstream_model::id::{DeviceId, DeviceKey, EventId, ExecutionId, ExecutionKey, Seq};
use tokio::sync::broadcast;

use crate::StreamResult;

#[async_trait::async_trait]
pub trait Announcer: Send + Sync {
    /// Publishes to all listeners, in one round trip.
    async fn announce_commits(&self, news: &[Announcement]) -> StreamResult<()>;

    /// Subscribes to all announcements from now on. A slow listener misses some (`Lagged`) and reads the
    /// store.
    async fn subscribe_all(&self) -> StreamResult<broadcast::Receiver<Announcement>>;
}

/// A commit that concerns an execution (a transition, a verdict on an event, a settlement, work for external
/// workers) or the assignments of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    pub execution: ExecutionKey,
    pub seq: Seq,
    pub event: Option<EventId>,
}

/// A seq that no execution has.
const OF_DEVICE: Seq = Seq(-1);

impl Announcement {
    /// Tasks of the execution are ready for the external workers of their queues.
    pub fn of_work(execution: ExecutionKey) -> Self {
        Self { execution, seq: Seq(0), event: None }
    }

    /// The assignments of a device have changed. Ids of devices and executions have the same syntax; a build
    /// that does not know devices takes it for an announcement of an execution without waiters.
    pub fn of_device_change(device: &DeviceKey) -> Option<Self> {
        let execution = ExecutionId::parse(device.device.as_str()).ok()?;
        let execution = ExecutionKey { tenant: device.tenant.clone(), execution };
        Some(Self { execution, seq: OF_DEVICE, event: None })
    }

    /// The device concerned, if any.
    pub fn device_key(&self) -> Option<DeviceKey> {
        if self.seq != OF_DEVICE {
            return None;
        }
        let device = DeviceId::parse(self.execution.execution.as_str()).ok()?;
        Some(DeviceKey { tenant: self.execution.tenant.clone(), device })
    }

    pub fn announces_work(&self) -> bool {
        self.seq == Seq(0) && self.event.is_none()
    }
}

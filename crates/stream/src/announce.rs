//! Announcements: a best-effort word that something was committed.
//!
//! `Prefer: wait` and tail listen to them and read the store again every 500 ms in case one is lost.

use millstream_core::id::{DeviceId, DeviceKey, EventId, ExecutionId, ExecutionKey, Seq};
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
/// for external workers; or something about what a device has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    pub execution: ExecutionKey,
    pub seq: Seq,
    pub event: Option<EventId>,
}

/// No execution has it.
const OF_DEVICE: Seq = Seq(-1);

impl News {
    /// Tasks of the execution are ready for whoever serves their queues.
    pub fn work(execution: ExecutionKey) -> Self {
        Self { execution, seq: Seq(0), event: None }
    }

    /// What a device has, or is asked about, is different. Ids of devices and executions are alike in what they
    /// may contain; whoever does not know of devices takes it for a word about an execution that nobody waits for.
    pub fn device(device: &DeviceKey) -> Option<Self> {
        let execution = ExecutionId::parse(device.device.as_str()).ok()?;
        let execution = ExecutionKey { tenant: device.tenant.clone(), execution };
        Some(Self { execution, seq: OF_DEVICE, event: None })
    }

    /// The device that it is about.
    pub fn of_device(&self) -> Option<DeviceKey> {
        if self.seq != OF_DEVICE {
            return None;
        }
        let device = DeviceId::parse(self.execution.execution.as_str()).ok()?;
        Some(DeviceKey { tenant: self.execution.tenant.clone(), device })
    }

    pub fn is_work(&self) -> bool {
        self.seq == Seq(0) && self.event.is_none()
    }
}

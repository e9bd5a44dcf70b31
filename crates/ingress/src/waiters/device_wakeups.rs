//! Wake-ups for devices that wait for work: writes of this process wake them at once, writes of other
//! processes when they are announced ([`crate::waiters`]). In case an announcement is lost, waiters also poll
//! at an interval.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::id::DeviceKey;
use tokio::sync::watch;

#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceWakeups(Arc<Mutex<HashMap<DeviceKey, DeviceWaiters>>>);

#[derive(Debug)]
struct DeviceWaiters {
    sender: watch::Sender<u64>,
    ears: usize,
}

/// Subscription to one device; ends on drop.
#[derive(Debug)]
pub(crate) struct DeviceSubscription {
    all: DeviceWakeups,
    device: DeviceKey,
    heard: watch::Receiver<u64>,
}

impl DeviceWakeups {
    pub(crate) fn subscribe_to(&self, device: DeviceKey) -> DeviceSubscription {
        let mut lines = self.lock_waiters();
        let line = lines
            .entry(device.clone())
            .or_insert_with(|| DeviceWaiters { sender: watch::channel(0).0, ears: 0 });
        line.ears += 1;
        let heard = line.sender.subscribe();
        drop(lines);
        DeviceSubscription { all: self.clone(), device, heard }
    }

    pub(crate) fn wake_device(&self, device: &DeviceKey) {
        if let Some(line) = self.lock_waiters().get(device) {
            line.sender.send_modify(|count| *count += 1);
        }
    }

    /// Wakes all waiters: an announcement may have been missed.
    pub(crate) fn wake_all(&self) {
        for line in self.lock_waiters().values() {
            line.sender.send_modify(|count| *count += 1);
        }
    }

    fn lock_waiters(&self) -> MutexGuard<'_, HashMap<DeviceKey, DeviceWaiters>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceSubscription {
    /// Waits until something is written about the device, at most for `longest`.
    pub(crate) async fn wait_for_news(&mut self, longest: Duration) {
        let _ = tokio::time::timeout(longest, self.heard.changed()).await;
    }
}

impl Drop for DeviceSubscription {
    fn drop(&mut self) {
        let mut lines = self.all.lock_waiters();
        if let Some(line) = lines.get_mut(&self.device) {
            line.ears -= 1;
            if line.ears == 0 {
                lines.remove(&self.device);
            }
        }
    }
}

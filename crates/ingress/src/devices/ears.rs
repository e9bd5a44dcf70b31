//! Wake-ups for devices that wait for work: writes of this process wake them at once, writes of other
//! processes when they are announced ([`crate::news`]). In case an announcement is lost, waiters also poll
//! at an interval.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_core::id::DeviceKey;
use tokio::sync::watch;

#[derive(Debug, Clone, Default)]
pub(crate) struct Ears(Arc<Mutex<HashMap<DeviceKey, Line>>>);

#[derive(Debug)]
struct Line {
    sender: watch::Sender<u64>,
    ears: usize,
}

/// Subscription to one device; ends on drop.
#[derive(Debug)]
pub(crate) struct Ear {
    all: Ears,
    device: DeviceKey,
    heard: watch::Receiver<u64>,
}

impl Ears {
    pub(crate) fn of(&self, device: DeviceKey) -> Ear {
        let mut lines = self.lines();
        let line =
            lines.entry(device.clone()).or_insert_with(|| Line { sender: watch::channel(0).0, ears: 0 });
        line.ears += 1;
        let heard = line.sender.subscribe();
        drop(lines);
        Ear { all: self.clone(), device, heard }
    }

    pub(crate) fn wake(&self, device: &DeviceKey) {
        if let Some(line) = self.lines().get(device) {
            line.sender.send_modify(|count| *count += 1);
        }
    }

    /// Wakes all waiters: an announcement may have been missed.
    pub(crate) fn wake_all(&self) {
        for line in self.lines().values() {
            line.sender.send_modify(|count| *count += 1);
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<DeviceKey, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ear {
    /// Waits until something is written about the device, at most for `longest`.
    pub(crate) async fn listen(&mut self, longest: Duration) {
        let _ = tokio::time::timeout(longest, self.heard.changed()).await;
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let mut lines = self.all.lines();
        if let Some(line) = lines.get_mut(&self.device) {
            line.ears -= 1;
            if line.ears == 0 {
                lines.remove(&self.device);
            }
        }
    }
}

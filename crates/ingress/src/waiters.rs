//! Registry of waiters: receives every announcement and wakes the waiters of that execution.
//!
//! A thousand callers that each received every announcement would cause a thousand wake-ups per commit.
//! Here one task receives them, and a waiter is woken for its own execution only. Announcements are best
//! effort: waiters also poll the store at an interval, so that they finish without any announcement.

mod device_wakeups;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::id::ExecutionKey;
use millstream_stream::announcement::Announcer;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::device_wakeups::{DeviceSubscription, DeviceWakeups};

/// Pause before subscribing again to announcements of an unavailable stream.
const AGAIN: Duration = Duration::from_secs(1);

/// Waiters by execution.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaiterRegistry {
    lines: Arc<Mutex<HashMap<ExecutionKey, ExecutionWaiters>>>,
    /// Notified when tasks for external workers are announced, or an announcement may have been lost.
    pub(crate) work: Arc<Notify>,
    /// Devices that wait for work.
    pub(crate) devices: DeviceWakeups,
}

/// All waiters of one execution.
#[derive(Debug)]
struct ExecutionWaiters {
    sender: watch::Sender<u64>,
    ears: usize,
}

/// Subscription to one execution; ends on drop.
#[derive(Debug)]
pub(crate) struct ExecutionSubscription {
    news: WaiterRegistry,
    execution: ExecutionKey,
    heard: watch::Receiver<u64>,
}

impl WaiterRegistry {
    /// Starts listening; ends when `closing` is cancelled.
    pub(crate) fn start_listening(
        announcer: Arc<dyn Announcer>,
        closing: CancellationToken,
        tasks: &TaskTracker,
    ) -> Self {
        let news = Self::default();
        tasks.spawn(listen_to_announcements(news.clone(), announcer, closing));
        news
    }

    /// Subscribes to all further announcements about `execution`.
    pub(crate) fn subscribe_to(&self, execution: ExecutionKey) -> ExecutionSubscription {
        let mut lines = self.lock_waiters();
        let line = lines
            .entry(execution.clone())
            .or_insert_with(|| ExecutionWaiters { sender: watch::channel(0).0, ears: 0 });
        line.ears += 1;
        let heard = line.sender.subscribe();
        drop(lines);
        ExecutionSubscription { news: self.clone(), execution, heard }
    }

    fn lock_waiters(&self) -> MutexGuard<'_, HashMap<ExecutionKey, ExecutionWaiters>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_execution(&self, execution: &ExecutionKey) {
        if let Some(line) = self.lock_waiters().get(execution) {
            line.sender.send_modify(|count| *count += 1);
        }
    }

    fn wake_all(&self) {
        self.work.notify_one();
        self.devices.wake_all();
        for line in self.lock_waiters().values() {
            line.sender.send_modify(|count| *count += 1);
        }
    }
}

/// Polling backoff: how often an idle waiter reads the store although nothing was announced. The pause
/// grows, so that a thousand idle tails cost the store next to nothing. Announcements wake at once; polling
/// covers lost ones.
#[derive(Debug)]
pub(crate) struct RereadPause {
    shortest: Duration,
    next: Duration,
}

/// Upper bound of the pause, as a multiple of the shortest.
const LONGEST_PAUSE: u32 = 60;

impl RereadPause {
    pub(crate) fn of(shortest: Duration) -> Self {
        Self { shortest, next: shortest }
    }

    /// The next pause; `chance` adds jitter, which spreads waiters that began together.
    pub(crate) fn next_pause(&mut self, chance: u64) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.shortest * LONGEST_PAUSE);
        let spread = u32::try_from(chance % 512).unwrap_or(0);
        pause - pause / 2 * spread / 1_024
    }

    /// Resets the backoff after an event.
    pub(crate) fn reset_backoff(&mut self) {
        self.next = self.shortest;
    }
}

impl ExecutionSubscription {
    /// Waits until something is announced, at most for `longest`.
    pub(crate) async fn wait_for_news(&mut self, longest: Duration) {
        let _ = tokio::time::timeout(longest, self.heard.changed()).await;
    }
}

impl Drop for ExecutionSubscription {
    fn drop(&mut self) {
        let mut lines = self.news.lock_waiters();
        if let Some(line) = lines.get_mut(&self.execution) {
            line.ears -= 1;
            if line.ears == 0 {
                lines.remove(&self.execution);
            }
        }
    }
}

async fn listen_to_announcements(
    news: WaiterRegistry,
    announcer: Arc<dyn Announcer>,
    closing: CancellationToken,
) {
    let run = async {
        loop {
            if let Ok(mut announcements) = announcer.subscribe_all().await {
                loop {
                    match announcements.recv().await {
                        Ok(word) if word.announces_work() => news.work.notify_one(),
                        Ok(word) => match word.device_key() {
                            Some(device) => news.devices.wake_device(&device),
                            None => news.wake_execution(&word.execution),
                        },
                        Err(RecvError::Lagged(_)) => news.wake_all(),
                        Err(RecvError::Closed) => break,
                    }
                }
            }
            news.wake_all();
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::select! {
        biased;
        () = run => {}
        () = closing.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::id::{ExecutionId, TenantId};

    fn key(id: &str) -> ExecutionKey {
        ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(id).unwrap() }
    }

    #[tokio::test]
    async fn waiter_wakes_for_own_execution_only() {
        let news = WaiterRegistry::default();
        let (mut mine, other) = (news.subscribe_to(key("mine")), news.subscribe_to(key("other")));
        news.wake_execution(&key("mine"));
        mine.wait_for_news(Duration::from_secs(10)).await;
        assert!(!other.heard.has_changed().unwrap());
    }

    #[test]
    fn reread_pause_backs_off() {
        let mut pause = RereadPause::of(Duration::from_millis(500));
        let pauses: Vec<_> = (0..8).map(|_| pause.next_pause(0).as_millis()).collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert!((22_500..30_000).contains(&pause.next_pause(u64::MAX).as_millis()));
        pause.reset_backoff();
        assert_eq!(pause.next_pause(0).as_millis(), 500);
    }

    #[tokio::test]
    async fn last_unsubscribe_removes_waiters() {
        let news = WaiterRegistry::default();
        let (first, second) = (news.subscribe_to(key("x")), news.subscribe_to(key("x")));
        drop(first);
        assert_eq!(news.lock_waiters().len(), 1);
        drop(second);
        assert_eq!(news.lock_waiters().len(), 0);
    }
}

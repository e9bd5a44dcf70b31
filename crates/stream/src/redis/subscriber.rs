//! The single subscription of a process: reconnects forever and broadcasts announcements to all listeners.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use redis::aio::PubSub;
use tokio::sync::{broadcast, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::announcement_lines;
use super::connection::RedisLink;
use crate::announcement::Announcement;

/// Announcements that a slow listener may lag behind before it loses some and reads the store instead. At
/// 10,000 transitions a second this is 0.4 s, about the interval at which listeners read the store anyway;
/// more would only cost memory.
const BACKLOG: usize = 4_096;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// An idle subscription receives nothing, so a dead connection is detected only by a probe.
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBE_PATIENCE: Duration = Duration::from_secs(3);

/// Owns the task; the task ends with this value, and listeners then see the channel closed.
pub(super) struct RedisSubscriber {
    heard: broadcast::Sender<Announcement>,
    state: watch::Receiver<SubscriptionState>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubscriptionState {
    /// The first attempt is running.
    Starting,
    Subscribed,
    Away,
}

impl RedisSubscriber {
    pub(super) fn start_task(link: Arc<RedisLink>, channel: String) -> Self {
        let (heard, _) = broadcast::channel(BACKLOG);
        let (report, state) = watch::channel(SubscriptionState::Starting);
        let task =
            AbortOnDropHandle::new(tokio::spawn(keep_subscribed(link, channel, heard.clone(), report)));
        Self { heard, state, _task: task }
    }

    /// Waits for the first attempt, so that announcements made after this returns are received.
    pub(super) async fn subscribe_all(&self) -> broadcast::Receiver<Announcement> {
        let receiver = self.heard.subscribe();
        // The task owns the sender and lives as long as this value.
        let _ = self.state.clone().wait_for(|state| *state != SubscriptionState::Starting).await;
        receiver
    }
}

async fn keep_subscribed(
    link: Arc<RedisLink>,
    channel: String,
    heard: broadcast::Sender<Announcement>,
    report: watch::Sender<SubscriptionState>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        match link.subscribed_connection(&channel).await {
            Ok(pubsub) => {
                report.send_replace(SubscriptionState::Subscribed);
                pause = FIRST_PAUSE;
                forward_announcements(pubsub, &heard).await;
                tracing::warn!(stream.channel = %channel, "subscription lost");
            }
            Err(error) => {
                tracing::debug!(%error, stream.channel = %channel, "cannot subscribe");
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        report.send_replace(SubscriptionState::Away);
        sleep(pause).await;
    }
}

/// Returns when the connection is dead.
async fn forward_announcements(pubsub: PubSub, heard: &broadcast::Sender<Announcement>) {
    let (mut sink, mut messages) = pubsub.split();
    let mut probes = interval(PROBE_EVERY);
    probes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = messages.next() => {
                let Some(message) = message else { return };
                let Ok(text) = message.get_payload::<String>() else { continue };
                for item in announcement_lines::decode_announcements(&text) {
                    // A send without listeners is not an error.
                    let _ = heard.send(item);
                }
            }
            _ = probes.tick() => {
                match timeout(PROBE_PATIENCE, sink.ping::<redis::Value>()).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        }
    }
}

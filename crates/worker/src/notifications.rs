//! Announcements and doorbells that follow a committed write.
//!
//! All of them may be lost with the process. Each loss is repaired elsewhere: listeners read the store again,
//! and the overdue sweep finds undecided events.

use std::collections::{BTreeSet, HashSet};

use millstream_model::id::{DeviceKey, EventId, ExecutionKey, Seq};
use millstream_store::action_store::{SettleVerdict, Settlement};
use millstream_stream::announcement::Announcement;
use millstream_stream::doorbell::Doorbell;

use crate::environment::WorkerEnvironment;

#[derive(Debug, Default)]
pub(crate) struct WriteNotifications {
    news: Vec<Announcement>,
    work: Option<Announcement>,
    bells: BTreeSet<Doorbell>,
}

impl WriteNotifications {
    pub(crate) fn announce_transition(&mut self, execution: &ExecutionKey, seq: Seq, event: EventId) {
        self.news.push(Announcement { execution: execution.clone(), seq, event: Some(event) });
    }

    /// An action that waited for a device or for people is settled. Announces its owner, unless its lease had
    /// passed on.
    pub(crate) fn add_settled(
        &mut self,
        settlement: Settlement,
        verdict: &SettleVerdict,
    ) -> Option<ExecutionKey> {
        match verdict {
            SettleVerdict::Recorded { event: _ } => {}
            SettleVerdict::Stale => return None,
        }
        let key = settlement.lease.key;
        self.announce_transition(&key.execution, key.seq, settlement.event_id);
        if settlement.outcome.emitted_event().is_some() {
            self.ring_mailbox(key.execution.clone());
        }
        Some(key.execution)
    }

    /// Marks a device whose assignments or requests have changed.
    pub(crate) fn announce_device(&mut self, device: &DeviceKey) {
        self.news.extend(Announcement::of_device_change(device));
    }

    /// Tasks are ready. One announcement covers all task queues: each listener looks for tasks of any queue.
    pub(crate) fn announce_tasks(&mut self, execution: &ExecutionKey) {
        self.work.get_or_insert_with(|| Announcement::of_work(execution.clone()));
    }

    pub(crate) fn ring_mailbox(&mut self, execution: ExecutionKey) {
        self.bells.insert(Doorbell::Mailbox(execution));
    }

    /// The mailbox turned out to be empty: takes its doorbell back.
    pub(crate) fn forget_mailbox(&mut self, execution: &ExecutionKey) {
        self.bells.remove(&Doorbell::Mailbox(execution.clone()));
    }

    /// One doorbell per tenant is enough: the worker that reads it looks for any due actions of the tenant.
    pub(crate) fn ring_actions(&mut self, execution: ExecutionKey) {
        let bell = Doorbell::Actions(execution);
        let tenant = &bell.execution().tenant;
        let rung = |other: &Doorbell| match other {
            Doorbell::Actions(execution) => execution.tenant == *tenant,
            Doorbell::Mailbox(_) => false,
        };
        if !self.bells.iter().any(rung) {
            self.bells.insert(bell);
        }
    }

    /// Publishes them; returns the executions whose mailbox could not be rung. `before_bells` is awaited before
    /// ringing, so that the workers that read a doorbell find the execution unlocked.
    pub(crate) async fn publish(
        self,
        env: &WorkerEnvironment,
        before_bells: impl Future<Output = ()>,
    ) -> HashSet<ExecutionKey> {
        let news: Vec<Announcement> = self.work.into_iter().chain(self.news).collect();
        let announce = async {
            if !news.is_empty() {
                // A lost announcement is harmless: listeners read the store again by themselves.
                let _ = env.streams.announcer.announce_commits(&news).await;
            }
        };
        let ring = async {
            before_bells.await;
            let bells: Vec<Doorbell> = self.bells.into_iter().collect();
            if publish_bells(env, &bells).await { HashSet::new() } else { mailboxes_of_bells(bells) }
        };
        futures::join!(announce, ring).1
    }
}

/// Publishes doorbells; `false` when the stream is unreachable.
pub(crate) async fn publish_bells(env: &WorkerEnvironment, bells: &[Doorbell]) -> bool {
    if bells.is_empty() {
        return true;
    }
    match env.streams.bells.publish_bells(bells).await {
        Ok(()) => {
            env.ring_outage.record_success();
            true
        }
        Err(error) => {
            env.ring_outage.record_failure(&error);
            false
        }
    }
}

fn mailboxes_of_bells(bells: Vec<Doorbell>) -> HashSet<ExecutionKey> {
    bells
        .into_iter()
        .filter_map(|bell| match bell {
            Doorbell::Mailbox(execution) => Some(execution),
            // The next look at due actions finds these.
            Doorbell::Actions(_) => None,
        })
        .collect()
}

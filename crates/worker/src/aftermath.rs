//! Post-commit effects of a visit: actions to perform, announcements, doorbells, log lines.
//!
//! All of them may be lost with the process. Each loss is repaired elsewhere: leases run out, listeners read
//! the store again, and the overdue sweep finds undecided events.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use millstream_core::id::{DeviceKey, EventId, ExecutionKey, Seq};
use millstream_store::action_store::{AfterFailure, LeasedAction, SettleVerdict, Settlement, Settling};
use millstream_stream::announce::News;
use millstream_stream::doorbell::Bell;
use tokio::time::Instant;

use crate::metrics;
use crate::perform::slots::Reserved;
use crate::perform::{self, Errand};
use crate::turn::Line;
use crate::worker::Worker;

#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    news: Vec<News>,
    work: Option<News>,
    bells: BTreeSet<Bell>,
    lines: Vec<Line>,
    /// Events decided, by verdict; counted once per visit.
    decided: BTreeMap<&'static str, u64>,
}

impl Aftermath {
    /// Hands leased actions over at once, without waiting for the rest of the visit.
    pub(crate) fn perform(
        &mut self,
        worker: &Worker,
        leased: Vec<LeasedAction>,
        reserved: &mut Reserved,
        asked: Instant,
    ) {
        for action in leased {
            let errand = Errand::new(worker, action, reserved.take(), asked);
            worker.performers.hand_over(errand);
        }
    }

    pub(crate) fn news(&mut self, execution: &ExecutionKey, seq: Seq, event: EventId) {
        self.news.push(News { execution: execution.clone(), seq, event: Some(event) });
    }

    /// An action that waited for a device or for people is settled. Announces its owner, unless its lease had
    /// passed on.
    pub(crate) fn settled(
        &mut self,
        settlement: Settlement,
        verdict: &SettleVerdict,
    ) -> Option<ExecutionKey> {
        match verdict {
            SettleVerdict::Recorded { event: _ } => {}
            SettleVerdict::Stale => return None,
        }
        let key = settlement.lease.key;
        self.news(&key.execution, key.seq, settlement.event_id);
        match settlement.outcome {
            Settling::Succeeded { emit: Some(_), .. }
            | Settling::Failed { then: AfterFailure::Emit(_), .. } => {
                self.ring_mailbox(key.execution.clone());
            }
            Settling::Succeeded { emit: None, .. }
            | Settling::Retry { .. }
            | Settling::Postponed { .. }
            | Settling::Awaiting { .. }
            | Settling::Failed { then: AfterFailure::Incident(_) | AfterFailure::Compensate, .. } => {}
        }
        Some(key.execution)
    }

    /// Marks a device whose assignments or requests have changed.
    pub(crate) fn device(&mut self, device: &DeviceKey) {
        self.news.extend(News::device(device));
    }

    /// Tasks are ready. One announcement covers all task queues: each listener looks for tasks of any queue.
    pub(crate) fn work(&mut self, execution: &ExecutionKey) {
        self.work.get_or_insert_with(|| News::work(execution.clone()));
    }

    pub(crate) fn ring_mailbox(&mut self, execution: ExecutionKey) {
        self.bells.insert(Bell::Mailbox(execution));
    }

    /// The mailbox turned out to be empty: takes its doorbell back.
    pub(crate) fn forget_mailbox(&mut self, execution: &ExecutionKey) {
        self.bells.remove(&Bell::Mailbox(execution.clone()));
    }

    /// One doorbell per tenant is enough: the worker that reads it looks for any due actions of the tenant.
    pub(crate) fn ring_actions(&mut self, execution: ExecutionKey) {
        let bell = Bell::Actions(execution);
        let tenant = &bell.execution().tenant;
        let rung = |other: &Bell| match other {
            Bell::Actions(execution) => execution.tenant == *tenant,
            Bell::Mailbox(_) => false,
        };
        if !self.bells.iter().any(rung) {
            self.bells.insert(bell);
        }
    }

    pub(crate) fn decided(&mut self, verdict: &'static str) {
        *self.decided.entry(verdict).or_default() += 1;
    }

    pub(crate) fn lines(&mut self, lines: Vec<Line>) {
        self.lines.extend(lines);
    }

    /// Publishes all effects; returns the executions whose mailbox could not be rung. `before_bells` is
    /// awaited before ringing, so that the workers that read a doorbell find the execution unlocked.
    pub(crate) async fn tell(
        self,
        worker: &Worker,
        before_bells: impl Future<Output = ()>,
    ) -> HashSet<ExecutionKey> {
        for (verdict, count) in self.decided {
            ::metrics::counter!(metrics::DECIDED, "verdict" => verdict).increment(count);
        }
        for line in self.lines {
            perform::log::write(&line.key, &line.text);
        }
        let news: Vec<News> = self.work.into_iter().chain(self.news).collect();
        let announce = async {
            if !news.is_empty() {
                // A lost announcement is harmless: listeners read the store again by themselves.
                let _ = worker.deps.streams.announcer.announce(&news).await;
            }
        };
        let ring = async {
            before_bells.await;
            let bells: Vec<Bell> = self.bells.into_iter().collect();
            if ring(worker, &bells).await { HashSet::new() } else { mailboxes(bells) }
        };
        futures::join!(announce, ring).1
    }
}

/// Publishes doorbells; `false` when the stream is unreachable.
pub(crate) async fn ring(worker: &Worker, bells: &[Bell]) -> bool {
    if bells.is_empty() {
        return true;
    }
    match worker.deps.streams.bells.publish(bells).await {
        Ok(()) => {
            worker.ring_outage.over();
            true
        }
        Err(error) => {
            worker.ring_outage.met(&error);
            false
        }
    }
}

fn mailboxes(bells: Vec<Bell>) -> HashSet<ExecutionKey> {
    bells
        .into_iter()
        .filter_map(|bell| match bell {
            Bell::Mailbox(execution) => Some(execution),
            // The next look at due actions finds these.
            Bell::Actions(_) => None,
        })
        .collect()
}

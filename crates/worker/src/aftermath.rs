//! What a worker tells the world after a commit: actions to perform, news, doorbells, log lines.
//!
//! All of it may be lost with the process; each loss is repaired elsewhere (leases run out, listeners
//! read again, undecided events are swept).

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
    /// How many events were decided, by verdict: counted once per visit.
    decided: BTreeMap<&'static str, u64>,
}

impl Aftermath {
    /// Hands leased actions over at once; they do not wait for the rest of the visit.
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

    /// An action that waited for a device or for people is settled. Whose it is, unless its lease had passed on.
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

    /// What a device has, or is asked about, is different.
    pub(crate) fn device(&mut self, device: &DeviceKey) {
        self.news.extend(News::device(device));
    }

    /// Tasks are ready for whoever serves their queues. One word says it for all: whoever hears it looks
    /// for any.
    pub(crate) fn work(&mut self, execution: &ExecutionKey) {
        self.work.get_or_insert_with(|| News::work(execution.clone()));
    }

    pub(crate) fn ring_mailbox(&mut self, execution: ExecutionKey) {
        self.bells.insert(Bell::Mailbox(execution));
    }

    /// Nothing is left in it after all.
    pub(crate) fn forget_mailbox(&mut self, execution: &ExecutionKey) {
        self.bells.remove(&Bell::Mailbox(execution.clone()));
    }

    /// One bell per tenant says it for all: the worker that hears it looks for any actions of the tenant that are due.
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

    /// Tells everything; returns the executions whose mailbox could not be rung. `before_bells` is
    /// awaited before ringing, so that those who hear the bell find the door unlocked.
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
                // Listeners read the store again by themselves.
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

/// Rings; `false` when the stream could not be reached.
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

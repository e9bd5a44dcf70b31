//! Reports of external workers about their tasks: heartbeats and outcomes, batched into one write.
//!
//! Reports that arrive during a write join the next one, as in [`crate::coalescer`]; a single report never
//! waits for more.

use std::sync::Arc;

use futures::FutureExt;
use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, WorkerId};
use millstream_store::action_store::{LeaseHeartbeat, LeasePulse, SettleVerdict, SettledBatch, Settlement};
use millstream_store::clock::Clock;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::views::ActionRecord;
use millstream_store::{StoreError, StoreResult, Stores};
use millstream_stream::announcement::{Announcement, Announcer};
use millstream_stream::doorbell::Doorbell;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::coalescer::Coalescer;
use crate::ring::DoorbellRinger;

/// Notifications of settled outcomes.
#[derive(Clone)]
pub(crate) struct SettleNotifier {
    pub(crate) ring: DoorbellRinger,
    pub(crate) announcer: Arc<dyn Announcer>,
    /// Notified when other tasks may be ready.
    pub(crate) work: Arc<Notify>,
}

pub(crate) struct TaskBatcher {
    outcomes: Coalescer<Settlement, SettleVerdict>,
    beats: Coalescer<LeaseHeartbeat, LeasePulse>,
    views: Coalescer<ActionKey, Option<ActionRecord>>,
}

impl TaskBatcher {
    pub(crate) fn start_batchers(
        stores: &Stores,
        clock: &Arc<dyn Clock>,
        door: WorkerId,
        told: SettleNotifier,
        tasks: &TaskTracker,
    ) -> Self {
        // The ingress performs no actions itself, so it leases none of those that an outcome unblocks.
        let grant = LeaseGrant {
            slots: 0,
            ttl: std::time::Duration::from_secs(60),
            queues: Arc::from([] as [ActionQueue; 0]),
        };
        let (actions, time, by, nothing, tellers) =
            (stores.actions.clone(), clock.clone(), door.clone(), grant.clone(), tasks.clone());
        let outcomes = Coalescer::start_coalescer(
            move |batch: Vec<Settlement>| {
                let (actions, time, by, grant) = (actions.clone(), time.clone(), by.clone(), nothing.clone());
                let (told, tellers) = (told.clone(), tellers.clone());
                async move {
                    let mut tries = 0;
                    loop {
                        match actions.settle_actions(&by, &batch, &grant, time.now()).await {
                            Ok(settled) => {
                                told.notify_settled(batch, &settled, &tellers);
                                return Ok(settled.verdicts);
                            }
                            Err(StoreError::Contention(_)) if tries < 8 => tries += 1,
                            Err(error) => return Err(error),
                        }
                    }
                }
                .boxed()
            },
            tasks,
        );
        let (actions, time) = (stores.actions.clone(), clock.clone());
        let beats = Coalescer::start_coalescer(
            move |batch: Vec<LeaseHeartbeat>| {
                let (actions, time, by, grant) = (actions.clone(), time.clone(), door.clone(), grant.clone());
                async move { actions.renew_leases(&batch, &by, &grant, time.now()).await }.boxed()
            },
            tasks,
        );
        let board = stores.tasks.clone();
        let views = Coalescer::start_coalescer(
            move |keys: Vec<ActionKey>| {
                let board = board.clone();
                async move { board.find_actions(&keys).await }.boxed()
            },
            tasks,
        );
        Self { outcomes, beats, views }
    }

    pub(crate) async fn settle_task(&self, settlement: Settlement) -> StoreResult<SettleVerdict> {
        only_answer(self.outcomes.ask_batched(vec![settlement]).await?)
    }

    pub(crate) async fn beat_task(&self, beat: LeaseHeartbeat) -> StoreResult<LeasePulse> {
        only_answer(self.beats.ask_batched(vec![beat]).await?)
    }

    pub(crate) async fn find_task(&self, key: ActionKey) -> StoreResult<Option<ActionRecord>> {
        only_answer(self.views.ask_batched(vec![key]).await?)
    }
}

impl SettleNotifier {
    /// Rings for events that entered a mailbox and for actions that became ready, and announces the
    /// outcomes to waiters. Neither delays the answer.
    pub(crate) fn notify_settled(
        &self,
        batch: Vec<Settlement>,
        settled: &SettledBatch,
        tellers: &TaskTracker,
    ) {
        let (mut bells, mut news) = (Vec::new(), Vec::with_capacity(batch.len()));
        for (settlement, verdict) in batch.into_iter().zip(&settled.verdicts) {
            let key = settlement.lease.key;
            match verdict {
                SettleVerdict::Recorded { event: _ } => {}
                SettleVerdict::Stale => continue,
            }
            // A retry is leased when it is due.
            if settlement.outcome.emitted_event().is_some() {
                bells.push(Doorbell::Mailbox(key.execution.clone()));
            }
            news.push(Announcement {
                execution: key.execution,
                seq: key.seq,
                event: Some(settlement.event_id),
            });
        }
        if settled.unleased > 0 {
            // One doorbell is enough: its receiver leases all due actions.
            bells.extend(news.first().map(|word| Doorbell::Actions(word.execution.clone())));
            news.extend(news.first().map(|word| Announcement::of_work(word.execution.clone())));
            self.work.notify_one();
        }
        self.ring.ring_later(bells);
        if !news.is_empty() {
            let announcer = self.announcer.clone();
            // Best effort: listeners also poll the store.
            tellers.spawn(async move { announcer.announce_commits(&news).await });
        }
    }
}

fn only_answer<T>(mut answers: Vec<T>) -> StoreResult<T> {
    answers.pop().ok_or_else(|| StoreError::Unavailable("the store gave no verdict".to_owned()))
}

//! Reports of external workers about their tasks: heartbeats and outcomes, batched into one write.
//!
//! Reports that arrive during a write join the next one, as in [`crate::lookup`]; a single report never
//! waits for more.

use std::sync::Arc;

use futures::FutureExt;
use millstream_core::id::{ActionKey, WorkerId};
use millstream_core::placement::Queue;
use millstream_store::action_store::{
    AfterFailure, Beat, Pulse, SettleVerdict, Settled, Settlement, Settling,
};
use millstream_store::clock::Clock;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::views::ActionView;
use millstream_store::{Result, StoreError, Stores};
use millstream_stream::announce::{Announcer, News};
use millstream_stream::doorbell::Bell;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::lookup::Lookup;
use crate::ring::Ring;

/// Notifications of settled outcomes.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) ring: Ring,
    pub(crate) announcer: Arc<dyn Announcer>,
    /// Notified when other tasks may be ready.
    pub(crate) work: Arc<Notify>,
}

pub(crate) struct Reports {
    outcomes: Lookup<Settlement, SettleVerdict>,
    beats: Lookup<Beat, Pulse>,
    views: Lookup<ActionKey, Option<ActionView>>,
}

impl Reports {
    pub(crate) fn start(
        stores: &Stores,
        clock: &Arc<dyn Clock>,
        door: WorkerId,
        told: Told,
        tasks: &TaskTracker,
    ) -> Self {
        // The ingress performs no actions itself, so it leases none of those that an outcome unblocks.
        let grant = LeaseGrant {
            slots: 0,
            ttl: std::time::Duration::from_secs(60),
            queues: Arc::from([] as [Queue; 0]),
        };
        let (actions, time, by, nothing, tellers) =
            (stores.actions.clone(), clock.clone(), door.clone(), grant.clone(), tasks.clone());
        let outcomes = Lookup::start(
            move |batch: Vec<Settlement>| {
                let (actions, time, by, grant) = (actions.clone(), time.clone(), by.clone(), nothing.clone());
                let (told, tellers) = (told.clone(), tellers.clone());
                async move {
                    let mut tries = 0;
                    loop {
                        match actions.settle(&by, &batch, &grant, time.now()).await {
                            Ok(settled) => {
                                told.of(batch, &settled, &tellers);
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
        let beats = Lookup::start(
            move |batch: Vec<Beat>| {
                let (actions, time, by, grant) = (actions.clone(), time.clone(), door.clone(), grant.clone());
                async move { actions.renew(&batch, &by, &grant, time.now()).await }.boxed()
            },
            tasks,
        );
        let board = stores.tasks.clone();
        let views = Lookup::start(
            move |keys: Vec<ActionKey>| {
                let board = board.clone();
                async move { board.find(&keys).await }.boxed()
            },
            tasks,
        );
        Self { outcomes, beats, views }
    }

    pub(crate) async fn settle(&self, settlement: Settlement) -> Result<SettleVerdict> {
        one(self.outcomes.ask(vec![settlement]).await?)
    }

    pub(crate) async fn beat(&self, beat: Beat) -> Result<Pulse> {
        one(self.beats.ask(vec![beat]).await?)
    }

    pub(crate) async fn find(&self, key: ActionKey) -> Result<Option<ActionView>> {
        one(self.views.ask(vec![key]).await?)
    }
}

impl Told {
    /// Rings for events that entered a mailbox and for actions that became ready, and announces the
    /// outcomes to waiters. Neither delays the answer.
    pub(crate) fn of(&self, batch: Vec<Settlement>, settled: &Settled, tellers: &TaskTracker) {
        let (mut bells, mut news) = (Vec::new(), Vec::with_capacity(batch.len()));
        for (settlement, verdict) in batch.into_iter().zip(&settled.verdicts) {
            let key = settlement.lease.key;
            match verdict {
                SettleVerdict::Recorded { event: _ } => {}
                SettleVerdict::Stale => continue,
            }
            match settlement.outcome {
                Settling::Succeeded { emit: Some(_), .. }
                | Settling::Failed { then: AfterFailure::Emit(_), .. } => {
                    bells.push(Bell::Mailbox(key.execution.clone()));
                }
                // A retry is leased when it is due.
                Settling::Succeeded { emit: None, .. }
                | Settling::Retry { .. }
                | Settling::Postponed { .. }
                | Settling::Awaiting { .. }
                | Settling::Failed { then: AfterFailure::Incident(_) | AfterFailure::Compensate, .. } => {}
            }
            news.push(News { execution: key.execution, seq: key.seq, event: Some(settlement.event_id) });
        }
        if settled.unleased > 0 {
            // One doorbell is enough: its receiver leases all due actions.
            bells.extend(news.first().map(|word| Bell::Actions(word.execution.clone())));
            news.extend(news.first().map(|word| News::work(word.execution.clone())));
            self.work.notify_one();
        }
        self.ring.ring(bells);
        if !news.is_empty() {
            let announcer = self.announcer.clone();
            // Best effort: listeners also poll the store.
            tellers.spawn(async move { announcer.announce(&news).await });
        }
    }
}

fn one<T>(mut answers: Vec<T>) -> Result<T> {
    answers.pop().ok_or_else(|| StoreError::Unavailable("the store gave no verdict".to_owned()))
}

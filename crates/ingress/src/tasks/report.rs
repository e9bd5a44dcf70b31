//! What external workers tell about their tasks: signs of life and outcomes, many in one write.
//!
//! Whatever was told while the last write was in flight goes with the next one, as in
//! [`crate::lookup`]; a report alone never waits for company.

use std::sync::Arc;

use futures::FutureExt;
use millstream_core::id::{ActionKey, WorkerId};
use millstream_core::placement::Queue;
use millstream_store::action_store::{Beat, Pulse, SettleVerdict, Settlement};
use millstream_store::clock::Clock;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::views::ActionView;
use millstream_store::{Result, StoreError, Stores};
use tokio_util::task::TaskTracker;

use crate::lookup::Lookup;

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
        tasks: &TaskTracker,
    ) -> Self {
        // The door performs nothing itself: what an outcome sets free is for others.
        let grant = LeaseGrant {
            slots: 0,
            ttl: std::time::Duration::from_secs(60),
            queues: Arc::from([] as [Queue; 0]),
        };
        let (actions, time, by, nothing) =
            (stores.actions.clone(), clock.clone(), door.clone(), grant.clone());
        let outcomes = Lookup::start(
            move |batch: Vec<Settlement>| {
                let (actions, time, by, grant) = (actions.clone(), time.clone(), by.clone(), nothing.clone());
                async move {
                    let mut tries = 0;
                    loop {
                        match actions.settle(&by, &batch, &grant, time.now()).await {
                            Ok(settled) => return Ok(settled.verdicts),
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

fn one<T>(mut answers: Vec<T>) -> Result<T> {
    answers.pop().ok_or_else(|| StoreError::Unavailable("the store gave no verdict".to_owned()))
}

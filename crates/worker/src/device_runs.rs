//! The worker's side of device runs: settles the actions that wait for a run's outcome, and announces the
//! change.

use std::sync::atomic::Ordering;

use millstream_core::claim::{Told, WaitingAction, Weights};
use millstream_core::id::{ActionKey, DefinitionRef, ExecutionKey};
use millstream_core::time::Timestamp;
use millstream_store::action_store::{Begun, Lease, LeasedAction, Settlement};
use millstream_store::running::{Around, Rosters, Tally, Written};
use millstream_store::views::ActionView;
use millstream_store::{Result, Stores};

use crate::aftermath::Aftermath;
use crate::metrics;
use crate::perform::outcome;
use crate::worker::Worker;

#[async_trait::async_trait]
impl Around for Worker {
    fn stores(&self) -> &Stores {
        &self.deps.stores
    }

    fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    fn weights(&self) -> Weights {
        self.options.devices.weights
    }

    fn rosters(&self) -> &Rosters {
        &self.rosters
    }

    fn rotation(&self) -> u64 {
        self.choices.fetch_add(1, Ordering::Relaxed)
    }

    async fn settlements(&self, ended: Vec<(WaitingAction, Told)>) -> Vec<Result<Option<Settlement>>> {
        let keys: Vec<ActionKey> = ended.iter().map(|(waiting, _)| waiting.key.clone()).collect();
        let executions: Vec<ExecutionKey> = keys.iter().map(|key| key.execution.clone()).collect();
        let stores = &self.deps.stores;
        let found = futures::try_join!(stores.tasks.find(&keys), stores.events.targets(&executions));
        let (views, targets) = match found {
            Ok(found) => found,
            Err(error) => return ended.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut all = Vec::with_capacity(ended.len());
        for (((waiting, told), view), definition) in ended.into_iter().zip(views).zip(targets) {
            all.push(match (view, definition) {
                (Some(view), Some(definition)) => self.settlement(&waiting, told, view, definition).await,
                (Some(_) | None, Some(_) | None) => Ok(None),
            });
        }
        all
    }

    async fn written(&self, written: Written) {
        count(&written.tally);
        let mut after = Aftermath::default();
        written.devices.iter().for_each(|device| after.device(device));
        for (settlement, verdict) in written.settled {
            let Some(execution) = after.settled(settlement, &verdict) else { continue };
            if written.unleased > 0 {
                self.hear_of_actions(&execution.tenant);
                after.ring_actions(execution);
            }
        }
        after.tell(self, std::future::ready(())).await;
    }
}

impl Worker {
    async fn settlement(
        &self,
        waiting: &WaitingAction,
        told: Told,
        view: ActionView,
        definition: DefinitionRef,
    ) -> Result<Option<Settlement>> {
        let key = &waiting.key;
        let lease = Lease { key: key.clone(), epoch: waiting.epoch };
        let action = LeasedAction {
            lease: lease.clone(),
            event_id: waiting.event_id,
            definition,
            attempt: view.attempts,
            input: None,
            scope: None,
            results: Default::default(),
            traceparent: None,
            lease_until: view.created_at,
            revision: view.revision,
            heartbeat: None,
            progress: None,
            ready_at: view.ready_at.unwrap_or(view.created_at),
            closing: None,
            begun: Begun::Awaited,
        };
        let settling = outcome::of_other(self, &action, told.attempt()).await?;
        Ok(settling.map(|outcome| Settlement { lease, event_id: waiting.event_id, outcome }))
    }
}

fn count(tally: &Tally) {
    ::metrics::counter!(metrics::RUNS_CREATED).increment(tally.created);
    ::metrics::counter!(metrics::RUN_ASSIGNMENTS).increment(tally.assigned);
    for (reason, count) in &tally.reassigned {
        ::metrics::counter!(metrics::RUN_REASSIGNMENTS, "reason" => reason.as_str()).increment(*count);
    }
    ::metrics::counter!(metrics::RUNS_ENDED, "status" => "completed").increment(tally.completed);
    ::metrics::counter!(metrics::RUNS_ENDED, "status" => "failed").increment(tally.failed);
    for time in &tally.until_claimed {
        ::metrics::histogram!(metrics::RUN_CLAIM_SECONDS).record(time.as_secs_f64());
    }
}

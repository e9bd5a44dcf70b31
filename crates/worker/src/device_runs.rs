//! The worker as runs of devices see it: how their outcomes settle what waits for them, and who is told.

use std::sync::atomic::Ordering;

use millstream_core::claim::{Told, WaitingAction, Weights};
use millstream_core::time::Timestamp;
use millstream_store::action_store::{
    AfterFailure, Begun, Lease, LeasedAction, SettleVerdict, Settlement, Settling,
};
use millstream_store::running::{Around, Written};
use millstream_store::{Result, Stores};

use crate::aftermath::Aftermath;
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
        Weights::default()
    }

    fn rotation(&self) -> u64 {
        self.choices.fetch_add(1, Ordering::Relaxed)
    }

    async fn settlement(&self, waiting: &WaitingAction, told: Told) -> Result<Option<Settlement>> {
        let key = &waiting.key;
        let stores = &self.deps.stores;
        let found = stores.tasks.find(std::slice::from_ref(key)).await?;
        let Some(view) = found.into_iter().flatten().next() else { return Ok(None) };
        let targets = stores.events.targets(std::slice::from_ref(&key.execution)).await?;
        let Some(definition) = targets.into_iter().next().flatten() else { return Ok(None) };
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

    async fn written(&self, written: Written) {
        let mut after = Aftermath::default();
        for (settlement, verdict) in written.settled {
            match verdict {
                SettleVerdict::Recorded { event: _ } => {}
                SettleVerdict::Stale => continue,
            }
            let key = settlement.lease.key;
            after.news(&key.execution, key.seq, settlement.event_id);
            match settlement.outcome {
                Settling::Succeeded { emit: Some(_), .. }
                | Settling::Failed { then: AfterFailure::Emit(_), .. } => {
                    after.ring_mailbox(key.execution.clone());
                }
                Settling::Succeeded { emit: None, .. }
                | Settling::Retry { .. }
                | Settling::Postponed { .. }
                | Settling::Awaiting { .. }
                | Settling::Failed { then: AfterFailure::Incident(_) | AfterFailure::Compensate, .. } => {}
            }
            if written.unleased > 0 {
                after.ring_actions(key.execution);
                self.hunger.set(tokio::time::Instant::now());
            }
        }
        after.tell(self, std::future::ready(())).await;
    }
}

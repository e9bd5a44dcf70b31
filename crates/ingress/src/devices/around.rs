//! The door as runs of devices see it: how their outcomes settle what waits for them, and who is told.

use millstream_core::claim::{Told, WaitingAction, Weights};
use millstream_core::time::Timestamp;
use millstream_core::{action, entropy};
use millstream_store::action_store::{Lease, Settled, Settlement};
use millstream_store::outcome::{self, Whose};
use millstream_store::running::{Around, Written};
use millstream_store::{Result, Stores};

use crate::door::Door;

#[async_trait::async_trait]
impl Around for Door {
    fn stores(&self) -> &Stores {
        &self.stores
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn weights(&self) -> Weights {
        Weights::default()
    }

    fn rotation(&self) -> u64 {
        self.fleet.rotation()
    }

    async fn settlement(&self, waiting: &WaitingAction, told: Told) -> Result<Option<Settlement>> {
        let key = &waiting.key;
        let Some(view) = self.reports.find(key.clone()).await? else { return Ok(None) };
        let targets = self.machines.targets(std::slice::from_ref(&key.execution)).await?;
        let Some(definition) = targets.into_iter().next().flatten() else { return Ok(None) };
        let tenant = &key.execution.tenant;
        let found = self.machines.find(tenant, &definition.name, Some(definition.version)).await?;
        let Some((_, machine)) = found else { return Ok(None) };
        let Some(spec) = machine.action(&key.action) else { return Ok(None) };
        let whose = Whose { key, revision: view.revision, traceparent: None };
        let attempts = u32::try_from(view.attempts).unwrap_or(1);
        let conclusion = action::conclude(spec, &whose.shown(), attempts, told.attempt(), 0.0);
        let now = self.clock.now();
        let outcome =
            outcome::settling(whose, conclusion, now, &mut || entropy::event_id(now, &*self.entropy));
        let lease = Lease { key: key.clone(), epoch: waiting.epoch };
        Ok(Some(Settlement { lease, event_id: waiting.event_id, outcome }))
    }

    async fn written(&self, written: Written) {
        for device in &written.devices {
            self.fleet.ears.wake(device);
        }
        let (batch, verdicts): (Vec<_>, Vec<_>) = written.settled.into_iter().unzip();
        if !batch.is_empty() {
            let settled = Settled { verdicts, unleased: written.unleased, ..Settled::default() };
            self.told.of(batch, &settled, &self.fleet.tellers);
        }
    }
}

//! The ingress as the environment of runs of devices: settles the actions that wait for ended runs, and
//! notifies devices and workers.

use futures::future::join_all;
use millstream_core::claim::{Told, WaitingAction, Weights};
use millstream_core::time::Timestamp;
use millstream_core::{action, entropy};
use millstream_store::action_store::{Lease, Settled, Settlement};
use millstream_store::outcome::{self, Whose};
use millstream_store::running::{Around, Rosters, Written};
use millstream_store::{Result, Stores};
use millstream_stream::announce::News;

use super::counted;
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
        self.options.devices.weights
    }

    fn rosters(&self) -> &Rosters {
        &self.fleet.rosters
    }

    fn rotation(&self) -> u64 {
        self.fleet.rotation()
    }

    async fn settlements(&self, ended: Vec<(WaitingAction, Told)>) -> Vec<Result<Option<Settlement>>> {
        // Joined, so that their store lookups share batches.
        join_all(ended.into_iter().map(|(waiting, told)| settlement(self, waiting, told))).await
    }

    async fn written(&self, written: Written) {
        counted::written(&written.tally);
        written.devices.iter().for_each(|device| self.fleet.ears.wake(device));
        let news: Vec<News> = written.devices.iter().filter_map(News::device).collect();
        if !news.is_empty() {
            let announcer = self.streams.announcer.clone();
            // Best effort: a device that waits at another process polls again if the announcement is lost.
            self.fleet.tellers.spawn(async move { announcer.announce(&news).await.is_ok() });
        }
        let (batch, verdicts): (Vec<_>, Vec<_>) = written.settled.into_iter().unzip();
        if !batch.is_empty() {
            let settled = Settled { verdicts, unleased: written.unleased, ..Settled::default() };
            self.told.of(batch, &settled, &self.fleet.tellers);
        }
    }
}

async fn settlement(door: &Door, waiting: WaitingAction, told: Told) -> Result<Option<Settlement>> {
    let key = &waiting.key;
    let Some(view) = door.reports.find(key.clone()).await? else { return Ok(None) };
    let targets = door.machines.targets(std::slice::from_ref(&key.execution)).await?;
    let Some(definition) = targets.into_iter().next().flatten() else { return Ok(None) };
    let tenant = &key.execution.tenant;
    let found = door.machines.find(tenant, &definition.name, Some(definition.version)).await?;
    let Some((_, machine)) = found else { return Ok(None) };
    let Some(spec) = machine.action(&key.action) else { return Ok(None) };
    let whose = Whose { key, revision: view.revision, traceparent: None };
    let attempts = u32::try_from(view.attempts).unwrap_or(1);
    let conclusion = action::conclude(spec, &whose.shown(), attempts, told.attempt(), 0.0);
    let now = door.clock.now();
    let outcome = outcome::settling(whose, conclusion, now, &mut || entropy::event_id(now, &*door.entropy));
    let lease = Lease { key: key.clone(), epoch: waiting.epoch };
    Ok(Some(Settlement { lease, event_id: waiting.event_id, outcome }))
}

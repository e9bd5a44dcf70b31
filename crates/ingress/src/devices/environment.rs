//! The ingress as the environment of runs of devices: settles the actions that wait for ended runs, and
//! notifies devices and workers.

use futures::future::join_all;
use millstream_devices::claim::{RunOutcome, SelectionWeights, WaitingAction};
use millstream_model::entropy;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{Lease, SettledBatch, Settlement};
use millstream_store::outcome::{self, ActionAttempt};
use millstream_store::run_service::{RosterCache, RunEnvironment, WrittenRuns};
use millstream_store::{StoreResult, Stores};
use millstream_stream::announcement::Announcement;
use millstream_workflow::action;

use super::run_metrics;
use crate::state::IngressState;

#[async_trait::async_trait]
impl RunEnvironment for IngressState {
    fn stores(&self) -> &Stores {
        &self.stores
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn weights(&self) -> SelectionWeights {
        self.options.devices.weights
    }

    fn rosters(&self) -> &RosterCache {
        &self.fleet.rosters
    }

    fn next_rotation(&self) -> u64 {
        self.fleet.next_rotation()
    }

    async fn build_settlements(
        &self,
        ended: Vec<(WaitingAction, RunOutcome)>,
    ) -> Vec<StoreResult<Option<Settlement>>> {
        // Joined, so that their store lookups share batches.
        join_all(ended.into_iter().map(|(waiting, told)| settlement_of_run(self, waiting, told))).await
    }

    async fn publish_changes(&self, written: WrittenRuns) {
        run_metrics::count_written(&written.tally);
        written.devices.iter().for_each(|device| self.fleet.ears.wake_device(device));
        let news: Vec<Announcement> =
            written.devices.iter().filter_map(Announcement::of_device_change).collect();
        if !news.is_empty() {
            let announcer = self.streams.announcer.clone();
            // Best effort: a device that waits at another process polls again if the announcement is lost.
            self.fleet.tellers.spawn(async move { announcer.announce_commits(&news).await.is_ok() });
        }
        let (batch, verdicts): (Vec<_>, Vec<_>) = written.settled.into_iter().unzip();
        if !batch.is_empty() {
            let settled = SettledBatch { verdicts, unleased: written.unleased, ..SettledBatch::default() };
            self.told.notify_settled(batch, &settled, &self.fleet.tellers);
        }
    }
}

async fn settlement_of_run(
    door: &IngressState,
    waiting: WaitingAction,
    told: RunOutcome,
) -> StoreResult<Option<Settlement>> {
    let key = &waiting.key;
    let Some(view) = door.reports.find_task(key.clone()).await? else { return Ok(None) };
    let targets = door.machines.definitions_of(std::slice::from_ref(&key.execution)).await?;
    let Some(definition) = targets.into_iter().next().flatten() else { return Ok(None) };
    let tenant = &key.execution.tenant;
    let found = door.machines.find_machine(tenant, &definition.name, Some(definition.version)).await?;
    let Some((_, machine)) = found else { return Ok(None) };
    let Some(spec) = machine.action_spec(&key.action) else { return Ok(None) };
    let whose = ActionAttempt { key, revision: view.revision, traceparent: None };
    let attempts = u32::try_from(view.attempts).unwrap_or(1);
    let conclusion = action::conclude_attempt(spec, &whose.attempt_id(), attempts, told.to_attempt(), 0.0);
    let now = door.clock.now();
    let outcome =
        outcome::settle_conclusion(whose, conclusion, now, &mut || entropy::event_id(now, &*door.entropy));
    let lease = Lease { key: key.clone(), epoch: waiting.epoch };
    Ok(Some(Settlement { lease, event_id: waiting.event_id, outcome }))
}

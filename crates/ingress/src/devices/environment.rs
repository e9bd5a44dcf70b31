//! The ingress as the environment of runs of devices: settles the actions that wait for ended runs, and
//! notifies devices and workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use millstream_devices::claim::{RunOutcome, SelectionWeights, WaitingAction};
use millstream_model::entropy::{self, Entropy};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{ActionAttempt, Lease, SettledBatch, Settlement};
use millstream_store::clock::Clock;
use millstream_store::run_service::{RosterCache, RunEnvironment, WrittenRuns};
use millstream_store::{StoreResult, Stores};
use millstream_stream::announcement::Announcement;
use millstream_workflow::action;
use tokio_util::task::TaskTracker;

use super::run_metrics;
use crate::definition_cache::DefinitionCache;
use crate::tasks::report::{SettleNotifier, TaskBatcher};
use crate::waiters::DeviceWakeups;

pub(crate) struct DeviceEnvironment {
    pub(crate) stores: Stores,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) weights: SelectionWeights,
    pub(crate) machines: Arc<DefinitionCache>,
    pub(crate) reports: Arc<TaskBatcher>,
    pub(crate) told: SettleNotifier,
    /// Devices that wait for work.
    pub(crate) ears: DeviceWakeups,
    pub(crate) tellers: TaskTracker,
    /// The devices as this process knows them.
    pub(crate) rosters: Arc<RosterCache>,
    /// Rotates the choice among equal devices.
    pub(crate) choices: AtomicU64,
}

#[async_trait::async_trait]
impl RunEnvironment for DeviceEnvironment {
    fn stores(&self) -> &Stores {
        &self.stores
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn weights(&self) -> SelectionWeights {
        self.weights
    }

    fn rosters(&self) -> &RosterCache {
        &self.rosters
    }

    fn next_rotation(&self) -> u64 {
        self.choices.fetch_add(1, Ordering::Relaxed)
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
        written.devices.iter().for_each(|device| self.ears.wake_device(device));
        let news: Vec<Announcement> =
            written.devices.iter().filter_map(Announcement::of_device_change).collect();
        if !news.is_empty() {
            let announcer = self.told.announcer.clone();
            // Best effort: a device that waits at another process polls again if the announcement is lost.
            self.tellers.spawn(async move { announcer.announce_commits(&news).await.is_ok() });
        }
        let (batch, verdicts): (Vec<_>, Vec<_>) = written.settled.into_iter().unzip();
        if !batch.is_empty() {
            let settled = SettledBatch { verdicts, unleased: written.unleased, ..SettledBatch::default() };
            self.told.notify_settled(batch, &settled, &self.tellers);
        }
    }
}

async fn settlement_of_run(
    environment: &DeviceEnvironment,
    waiting: WaitingAction,
    told: RunOutcome,
) -> StoreResult<Option<Settlement>> {
    let key = &waiting.key;
    let Some(view) = environment.reports.find_task(key.clone()).await? else { return Ok(None) };
    let targets = environment.machines.definitions_of(std::slice::from_ref(&key.execution)).await?;
    let Some(definition) = targets.into_iter().next().flatten() else { return Ok(None) };
    let tenant = &key.execution.tenant;
    let found = environment.machines.find_machine(tenant, &definition.name, Some(definition.version)).await?;
    let Some((_, machine)) = found else { return Ok(None) };
    let Some(spec) = machine.action_spec(&key.action) else { return Ok(None) };
    let whose = ActionAttempt { ready_at: None, ..view.as_attempt() };
    let now = environment.clock.now();
    let outcome = action::conclude_attempt(&spec.policy, whose, told.to_attempt(), 0.0, now, &mut || {
        entropy::event_id(now, &*environment.entropy)
    });
    let lease = Lease { key: key.clone(), epoch: waiting.epoch };
    Ok(Some(Settlement { lease, event_id: waiting.event_id, outcome }))
}

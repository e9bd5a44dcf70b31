//! The worker's side of device runs: settles the actions that wait for a run's outcome, and announces the
//! change.

use std::sync::atomic::Ordering;

use millstream_devices::claim::{RunOutcome, SelectionWeights, WaitingAction};
use millstream_model::id::{ActionKey, DefinitionRef, ExecutionKey};
use millstream_model::time::Timestamp;
use millstream_store::action_store::{Lease, Settlement};
use millstream_store::run_service::{RosterCache, RunCounters, RunEnvironment, WrittenRuns};
use millstream_store::views::ActionRecord;
use millstream_store::{StoreResult, Stores};

use super::attempt::conclude_for_other;
use super::performer::ActionPerformer;
use crate::metrics;
use crate::notifications::WriteNotifications;

#[async_trait::async_trait]
impl RunEnvironment for ActionPerformer {
    fn stores(&self) -> &Stores {
        &self.env.stores
    }

    fn now(&self) -> Timestamp {
        self.env.clock.now()
    }

    fn weights(&self) -> SelectionWeights {
        self.env.options.devices.weights
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
        let keys: Vec<ActionKey> = ended.iter().map(|(waiting, _)| waiting.key.clone()).collect();
        let executions: Vec<ExecutionKey> = keys.iter().map(|key| key.execution.clone()).collect();
        let stores = &self.env.stores;
        let found =
            futures::try_join!(stores.tasks.find_actions(&keys), stores.events.find_definitions(&executions));
        let (views, targets) = match found {
            Ok(found) => found,
            Err(error) => return ended.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut all = Vec::with_capacity(ended.len());
        for (((waiting, told), view), definition) in ended.into_iter().zip(views).zip(targets) {
            all.push(match (view, definition) {
                (Some(view), Some(definition)) => self.run_settlement(&waiting, told, view, definition).await,
                (Some(_) | None, Some(_) | None) => Ok(None),
            });
        }
        all
    }

    async fn publish_changes(&self, written: WrittenRuns) {
        count_run_changes(&written.tally);
        let mut after = WriteNotifications::default();
        written.devices.iter().for_each(|device| after.announce_device(device));
        for (settlement, verdict) in written.settled {
            let Some(execution) = after.add_settled(settlement, &verdict) else { continue };
            if written.unleased > 0 {
                self.leasing.note_due_actions(&execution.tenant);
                after.ring_actions(execution);
            }
        }
        after.publish(&self.env, std::future::ready(())).await;
    }
}

impl ActionPerformer {
    async fn run_settlement(
        &self,
        waiting: &WaitingAction,
        told: RunOutcome,
        view: ActionRecord,
        definition: DefinitionRef,
    ) -> StoreResult<Option<Settlement>> {
        let whose = view.as_attempt();
        let concluded = conclude_for_other(self, &definition, whose, told.to_attempt()).await?;
        let lease = Lease { key: waiting.key.clone(), epoch: waiting.epoch };
        Ok(concluded.map(|outcome| Settlement { lease, event_id: waiting.event_id, outcome }))
    }
}

fn count_run_changes(tally: &RunCounters) {
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

//! Leases on actions, in memory. Settling has its own file.

use std::time::Duration;

use millstream_model::id::WorkerId;
use millstream_model::mutation::{self, Mutation};
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::{
    ActionStore, Lease, LeaseHeartbeat, LeasePulse, LeasedAction, OutcomeDemand, SettledBatch, Settlement,
};
use millstream_store::execution_store::LeaseGrant;

use crate::settle::MemorySettleView;
use crate::tables::MemoryExecution;
use crate::{MemoryStore, leasing, settle};

#[async_trait::async_trait]
impl ActionStore for MemoryStore {
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>> {
        let mut tables = self.lock_tables();
        let due = tables.due_actions(now, |action| {
            action.due_at().filter(|_| grant.queues.contains(&action.terms.queue))
        });
        let due = tables.round_robin(due);
        let turns = takers.iter().chain(takers.last().into_iter().cycle());
        let lease = |((key, action), worker)| {
            leasing::grant(tables.executions.get_mut(&key)?, &action, worker, grant, now)
        };
        Ok(due.into_iter().take(grant.slots).zip(turns).filter_map(lease).collect())
    }

    async fn renew_leases(
        &self,
        beats: &[LeaseHeartbeat],
        _worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasePulse>> {
        let mut tables = self.lock_tables();
        let renew = |beat: &LeaseHeartbeat| {
            let wanted = tables
                .executions
                .get(&beat.lease.key.execution)
                .map_or(OutcomeDemand::Yes, MemoryExecution::outcome_demand);
            let Some(action) = tables.held_or_awaiting_action(&beat.lease) else { return LeasePulse::Lost };
            if action.view.status == ActionStatus::Leased {
                action.view.lease_until = Some(action.lease_until(grant, now));
            }
            let until = action.view.lease_until.unwrap_or(now);
            if beat.progress.is_some() {
                action.view.progress.clone_from(&beat.progress);
            }
            LeasePulse::Held { until, wanted }
        };
        Ok(beats.iter().map(renew).collect())
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> StoreResult<Vec<bool>> {
        let mut tables = self.lock_tables();
        let record = |(lease, input): &(Lease, RawJson)| {
            let Some(action) = tables.held_action(lease) else { return false };
            action.view.input.get_or_insert_with(|| input.clone());
            true
        };
        Ok(inputs.iter().map(record).collect())
    }

    async fn settle_actions(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<SettledBatch> {
        let view = if mutation::is_active(Mutation::SettleWithoutLock) {
            let view = MemorySettleView::before_batch(&self.lock_tables(), batch);
            // As long as a statement takes: another settlement can interleave.
            tokio::time::sleep(Duration::from_millis(20)).await;
            view
        } else {
            MemorySettleView::Current
        };
        Ok(settle::settle_within(&mut self.lock_tables(), worker, batch, grant, now, &view))
    }

    async fn release_leases(&self, leases: &[Lease], now: Timestamp) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for lease in leases {
            if let Some(action) = tables.held_action(lease) {
                if !action.closing {
                    action.view.attempts -= 1;
                }
                action.make_ready(now);
            }
        }
        Ok(())
    }
}

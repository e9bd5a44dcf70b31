//! Leases on actions, in memory. Settling has its own file.

use std::time::Duration;

use millstream_core::id::WorkerId;
use millstream_core::planted::{self, Bug};
use millstream_core::raw::RawJson;
use millstream_core::status::ActionStatus;
use millstream_core::time::Timestamp;

use super::settle::View;
use super::tables::Execution;
use super::{Memory, leasing, settle};
use crate::Result;
use crate::action_store::{ActionStore, Beat, Lease, LeasedAction, Pulse, Settled, Settlement, Wanted};
use crate::execution_store::LeaseGrant;

#[async_trait::async_trait]
impl ActionStore for Memory {
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<LeasedAction>> {
        let mut tables = self.tables();
        let due =
            tables.due(now, |action| action.due_at().filter(|_| grant.queues.contains(&action.terms.queue)));
        let due = tables.in_turns(due);
        let turns = takers.iter().chain(takers.last().into_iter().cycle());
        let lease = |((key, action), worker)| {
            leasing::grant(tables.executions.get_mut(&key)?, &action, worker, grant, now)
        };
        Ok(due.into_iter().take(grant.slots).zip(turns).filter_map(lease).collect())
    }

    async fn renew(
        &self,
        beats: &[Beat],
        _worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<Pulse>> {
        let mut tables = self.tables();
        let renew = |beat: &Beat| {
            let wanted =
                tables.executions.get(&beat.lease.key.execution).map_or(Wanted::Yes, Execution::wanted);
            let Some(action) = tables.held_or_awaiting(&beat.lease) else { return Pulse::Lost };
            if action.view.status == ActionStatus::Leased {
                action.view.lease_until = Some(action.lease_until(grant, now));
            }
            let until = action.view.lease_until.unwrap_or(now);
            if beat.progress.is_some() {
                action.view.progress.clone_from(&beat.progress);
            }
            Pulse::Held { until, wanted }
        };
        Ok(beats.iter().map(renew).collect())
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> Result<Vec<bool>> {
        let mut tables = self.tables();
        let record = |(lease, input): &(Lease, RawJson)| {
            let Some(action) = tables.held(lease) else { return false };
            action.view.input.get_or_insert_with(|| input.clone());
            true
        };
        Ok(inputs.iter().map(record).collect())
    }

    async fn settle(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Settled> {
        let view = if planted::is(Bug::SettleWithoutLock) {
            let view = View::before(&self.tables(), batch);
            // As long as a statement takes: another settlement can interleave.
            tokio::time::sleep(Duration::from_millis(20)).await;
            view
        } else {
            View::Current
        };
        Ok(settle::settle(&mut self.tables(), worker, batch, grant, now, &view))
    }

    async fn release(&self, leases: &[Lease], now: Timestamp) -> Result<()> {
        let mut tables = self.tables();
        for lease in leases {
            if let Some(action) = tables.held(lease) {
                if !action.closing {
                    action.view.attempts -= 1;
                }
                action.make_ready(now);
            }
        }
        Ok(())
    }
}

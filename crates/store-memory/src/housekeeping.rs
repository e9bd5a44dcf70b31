//! Time and retention, in memory.

use std::collections::BTreeSet;

use millstream_model::id::{ExecutionKey, RunKey};
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::event_log::SignalSubmission;
use millstream_store::housekeeping::{Housekeeping, RetentionCutoffs};
use millstream_store::run_store::StoredRun;

use crate::MemoryStore;
use crate::tables::MemoryExecution;

#[async_trait::async_trait]
impl Housekeeping for MemoryStore {
    async fn ping(&self) -> StoreResult<Timestamp> {
        Ok(self.clock.now())
    }

    async fn purge_executions(&self, outlived: RetentionCutoffs, limit: usize) -> StoreResult<u64> {
        let mut tables = self.lock_tables();
        let gone: BTreeSet<ExecutionKey> = tables
            .executions
            .iter()
            .filter(|(_, row)| {
                outlived.cutoff_of_phase(row.phase).is_some_and(|time| row.updated_at < time) && is_over(row)
            })
            .map(|(key, _)| key.clone())
            .take(limit)
            .collect();
        tables.executions.retain(|key, _| !gone.contains(key));
        tables.event_index.retain(|_, (key, _)| !gone.contains(key));
        tables.incidents.retain(|view| !gone.contains(&view.execution));
        tables.feed.retain(|row| !gone.contains(&row.entry.execution));
        tables.outbox.retain(|(_, key), _| !gone.contains(key));
        Ok(count(gone.len()))
    }

    async fn purge_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        let mut tables = self.lock_tables();
        let gone: BTreeSet<_> = tables
            .idempotency
            .iter()
            .filter(|((tenant, _), used)| {
                let is_it =
                    |signal: &SignalSubmission| signal.tenant == *tenant && signal.event_id == used.event_id;
                used.created_at < before
                    && tables.find_event(tenant, used.event_id).is_none()
                    && !tables.signals.iter().any(|(signal, _)| is_it(signal))
            })
            .map(|(key, _)| key.clone())
            .take(limit)
            .collect();
        tables.idempotency.retain(|key, _| !gone.contains(key));
        Ok(count(gone.len()))
    }

    async fn purge_runs(&self, outlived: RetentionCutoffs, limit: usize) -> StoreResult<u64> {
        let mut tables = self.lock_tables();
        let is_over = |row: &StoredRun| {
            let kept = outlived.cutoff_of_run(row.run.status());
            row.run.ended_at().zip(kept).is_some_and(|(ended, time)| ended < time)
        };
        let gone: BTreeSet<RunKey> = tables
            .runs
            .iter()
            .filter(|(_, row)| is_over(row))
            .map(|(key, _)| key.clone())
            .take(limit)
            .collect();
        tables.runs.retain(|key, _| !gone.contains(key));
        tables.run_log.retain(|(key, _)| !gone.contains(key));
        Ok(count(gone.len()))
    }

    async fn purge_workers(&self, before: Timestamp) -> StoreResult<u64> {
        let mut tables = self.lock_tables();
        let known = tables.workers.len();
        tables.workers.retain(|_, view| view.seen_at >= before);
        tables.external.retain(|_, found| found.seen_at >= before);
        tables.signals.retain(|(signal, _)| signal.expires_at >= before);
        Ok(count(known - tables.workers.len()))
    }
}

fn is_over(row: &MemoryExecution) -> bool {
    row.phase.is_ended()
        && row.actions.values().all(|action| action.view.status.is_settled())
        && !row.events.values().any(|event| event.view.status == EventStatus::Pending)
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

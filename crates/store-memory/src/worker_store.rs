//! Workers and duties, in memory.

use std::time::Duration;

use millstream_model::id::WorkerId;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::worker_store::{WorkerHeartbeat, WorkerRecord, WorkerStore};

use crate::MemoryStore;
use crate::tables::MemoryDuty;

#[async_trait::async_trait]
impl WorkerStore for MemoryStore {
    async fn record_worker_heartbeat(&self, worker: &WorkerHeartbeat, now: Timestamp) -> StoreResult<()> {
        let view = WorkerRecord { beat: worker.clone(), seen_at: now };
        self.lock_tables().workers.insert(worker.worker.clone(), view);
        Ok(())
    }

    async fn deregister_worker(&self, worker: &WorkerId) -> StoreResult<()> {
        self.lock_tables().workers.remove(worker);
        Ok(())
    }

    async fn list_workers(&self, since: Timestamp) -> StoreResult<Vec<WorkerRecord>> {
        Ok(self.lock_tables().workers.values().filter(|view| view.seen_at >= since).cloned().collect())
    }

    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> StoreResult<Option<Timestamp>> {
        let mut tables = self.lock_tables();
        let never = MemoryDuty { turn: None, done_at: Timestamp::EPOCH };
        let duty = tables.duties.entry(duty.to_owned()).or_insert(never);
        match &duty.turn {
            Some((holder, until)) if holder != worker && *until > now => Ok(None),
            Some(_) | None => {
                duty.turn = Some((worker.clone(), now.plus(ttl)));
                Ok(Some(duty.done_at))
            }
        }
    }

    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        if let Some(duty) = tables.duties.get_mut(duty)
            && duty.turn.as_ref().is_some_and(|(holder, _)| holder == worker)
        {
            *duty = MemoryDuty { turn: None, done_at };
        }
        Ok(())
    }
}

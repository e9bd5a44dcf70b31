//! Workers and duties, in memory.

use std::time::Duration;

use millstream_core::id::WorkerId;
use millstream_core::time::Timestamp;

use super::Memory;
use super::tables::Duty;
use crate::Result;
use crate::worker_store::{WorkerBeat, WorkerStore, WorkerView};

#[async_trait::async_trait]
impl WorkerStore for Memory {
    async fn beat(&self, worker: &WorkerBeat, now: Timestamp) -> Result<()> {
        let view = WorkerView { beat: worker.clone(), seen_at: now };
        self.tables().workers.insert(worker.worker.clone(), view);
        Ok(())
    }

    async fn leave(&self, worker: &WorkerId) -> Result<()> {
        self.tables().workers.remove(worker);
        Ok(())
    }

    async fn workers(&self, since: Timestamp) -> Result<Vec<WorkerView>> {
        Ok(self.tables().workers.values().filter(|view| view.seen_at >= since).cloned().collect())
    }

    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let mut tables = self.tables();
        let never = Duty { turn: None, done_at: Timestamp::EPOCH };
        let duty = tables.duties.entry(duty.to_owned()).or_insert(never);
        match &duty.turn {
            Some((holder, until)) if holder != worker && *until > now => Ok(None),
            Some(_) | None => {
                duty.turn = Some((worker.clone(), now.plus(ttl)));
                Ok(Some(duty.done_at))
            }
        }
    }

    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> Result<()> {
        let mut tables = self.tables();
        if let Some(duty) = tables.duties.get_mut(duty)
            && duty.turn.as_ref().is_some_and(|(holder, _)| holder == worker)
        {
            *duty = Duty { turn: None, done_at };
        }
        Ok(())
    }
}

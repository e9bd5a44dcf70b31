//! Loading and attempts, in memory. Committing has its own file.

use millstream_core::id::{EventId, ExecutionKey, WorkerId};
use millstream_core::log::Kept;
use millstream_core::time::Timestamp;

use super::tables::{Execution, Tables};
use super::{Memory, commit};
use crate::Result;
use crate::execution_store::{
    Commit, Committed, ExecutionStore, Known, LeaseGrant, Loaded, LoadedExecution, MailboxLimits, More,
    Wanted,
};

#[async_trait::async_trait]
impl ExecutionStore for Memory {
    async fn load(&self, wanted: &[Wanted], limits: MailboxLimits) -> Result<Vec<Loaded>> {
        let tables = self.tables();
        Ok(wanted.iter().map(|wanted| load(&tables, wanted, limits)).collect())
    }

    async fn commit(
        &self,
        worker: &WorkerId,
        batch: &[Commit],
        lease: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<Committed>> {
        Ok(commit::commit(&mut self.tables(), worker, batch, lease, now))
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> Result<Vec<i32>> {
        let mut tables = self.tables();
        Ok(events.iter().map(|(execution, event)| count(&mut tables, execution, *event)).collect())
    }
}

fn load(tables: &Tables, wanted: &Wanted, limits: MailboxLimits) -> Loaded {
    let Some(row) = tables.executions.get(&wanted.execution) else {
        return Loaded::Missing;
    };
    let current = Known { position: row.position, seq: row.seq };
    let state = (wanted.known != Some(current)).then(|| {
        let later = row.transitions.iter().filter(|transition| transition.seq > row.snapshot.seq);
        (row.snapshot.clone(), later.cloned().collect())
    });
    let blob = || row.graph.as_ref().map(|graph| graph.blob.clone());
    let graph = state.as_ref().and_then(|_| blob());
    let (undecided, more) = cut(row, limits);
    let deferred = row.events.values().filter(|event| event.kept() == Some(Kept::Deferred));
    let mut mailbox: Vec<_> = deferred.map(|event| event.waiting(Kept::Deferred)).collect();
    mailbox.extend(undecided);
    mailbox.sort_by_key(|waiting| waiting.accept_no);
    Loaded::Found(Box::new(LoadedExecution {
        execution: wanted.execution.clone(),
        position: row.position,
        definition: row.definition.clone(),
        seq: row.seq,
        pause: row.pause_state(),
        state,
        snapshot_seq: row.snapshot.seq,
        mailbox,
        more,
        graph,
    }))
}

/// The first undecided events, as many as the limits allow and at least one.
fn cut(row: &Execution, limits: MailboxLimits) -> (Vec<millstream_core::log::Waiting>, More) {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    for event in row.decidable() {
        bytes += event.view.payload.len();
        if !taken.is_empty() && (taken.len() >= limits.events || bytes > limits.bytes) {
            return (taken, More::Remains);
        }
        taken.push(event.waiting(Kept::Undecided));
    }
    (taken, More::Nothing)
}

fn count(tables: &mut Tables, execution: &ExecutionKey, event: EventId) -> i32 {
    let Some((row, accept_no)) = tables.event_of(execution, event) else {
        return 0;
    };
    match row.events.get_mut(&accept_no) {
        Some(event) if event.kept().is_some() => {
            event.view.attempts += 1;
            event.view.attempts
        }
        Some(_) | None => 0,
    }
}

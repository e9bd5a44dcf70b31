//! Loading and attempts, in memory. Committing has its own file.

use millstream_model::id::{EventId, ExecutionKey, WorkerId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::execution_store::{
    CachedVersion, CommitVerdict, ExecutionCommit, ExecutionStore, LeaseGrant, LoadRequest, LoadVerdict,
    LoadedExecution, MailboxLimits, PageRemainder,
};
use millstream_workflow::log::MailboxState;

use crate::tables::{MemoryExecution, MemoryTables};
use crate::{MemoryStore, commit};

#[async_trait::async_trait]
impl ExecutionStore for MemoryStore {
    async fn load_executions(
        &self,
        wanted: &[LoadRequest],
        limits: MailboxLimits,
    ) -> StoreResult<Vec<LoadVerdict>> {
        let tables = self.lock_tables();
        Ok(wanted.iter().map(|wanted| load_execution(&tables, wanted, limits)).collect())
    }

    async fn commit_executions(
        &self,
        worker: &WorkerId,
        batch: &[ExecutionCommit],
        lease: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<CommitVerdict>> {
        Ok(commit::commit_execution(&mut self.lock_tables(), worker, batch, lease, now))
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> StoreResult<Vec<i32>> {
        let mut tables = self.lock_tables();
        Ok(events.iter().map(|(execution, event)| count_attempt(&mut tables, execution, *event)).collect())
    }
}

fn load_execution(tables: &MemoryTables, wanted: &LoadRequest, limits: MailboxLimits) -> LoadVerdict {
    let Some(row) = tables.executions.get(&wanted.execution) else {
        return LoadVerdict::Missing;
    };
    let current = CachedVersion { position: row.position, seq: row.seq };
    let state = (wanted.known != Some(current)).then(|| {
        let later = row.transitions.iter().filter(|transition| transition.seq > row.snapshot.seq);
        (row.snapshot.clone(), later.cloned().collect())
    });
    let blob = || row.graph.as_ref().map(|graph| graph.blob.clone());
    let graph = state.as_ref().and_then(|_| blob());
    let (undecided, more) = cut_mailbox(row, limits);
    let deferred = row.events.values().filter(|event| event.mailbox_state() == Some(MailboxState::Deferred));
    let mut mailbox: Vec<_> = deferred.map(|event| event.as_waiting(MailboxState::Deferred)).collect();
    mailbox.extend(undecided);
    mailbox.sort_by_key(|waiting| waiting.accept_no);
    LoadVerdict::Found(Box::new(LoadedExecution {
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
fn cut_mailbox(
    row: &MemoryExecution,
    limits: MailboxLimits,
) -> (Vec<millstream_workflow::log::MailboxEvent>, PageRemainder) {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    for event in row.decidable_events() {
        bytes += event.view.payload.len();
        if !taken.is_empty() && (taken.len() >= limits.events || bytes > limits.bytes) {
            return (taken, PageRemainder::Remains);
        }
        taken.push(event.as_waiting(MailboxState::Undecided));
    }
    (taken, PageRemainder::Nothing)
}

fn count_attempt(tables: &mut MemoryTables, execution: &ExecutionKey, event: EventId) -> i32 {
    let Some((row, accept_no)) = tables.event_of(execution, event) else {
        return 0;
    };
    match row.events.get_mut(&accept_no) {
        Some(event) if event.mailbox_state().is_some() => {
            event.view.attempts += 1;
            event.view.attempts
        }
        Some(_) | None => 0,
    }
}

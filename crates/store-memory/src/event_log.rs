//! Accepting, in memory.

use std::convert::Infallible;

use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, TenantId};
use millstream_model::overdue_sweep::SweepBand;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::acceptance::{self, AcceptanceFacts, KnownStart, UsedKey, used_key_status};
use millstream_store::event_log::{
    AppendRequest, Appended, EventLog, EventSubmission, ExecutionStart, IdempotencyKey, SignalSubmission,
};

use crate::MemoryStore;
use crate::graphs::GraphTable;
use crate::tables::{KeyUse, MemoryExecution, MemoryTables};

#[async_trait::async_trait]
impl EventLog for MemoryStore {
    async fn append(&self, batch: &[AppendRequest], now: Timestamp) -> StoreResult<Vec<Appended>> {
        let mut tables = self.lock_tables();
        let verdicts = batch
            .iter()
            .map(|item| match item {
                AppendRequest::Start(new) => start_execution(&mut tables, new, now),
                AppendRequest::Event(event) => append_event(&mut tables, event, now),
                AppendRequest::Signal(signal) => tables.accept_signal(signal, now),
            })
            .collect();
        Ok(verdicts)
    }

    async fn find_accepted(&self, keys: &[(TenantId, IdempotencyKey)]) -> StoreResult<Vec<Option<Appended>>> {
        let tables = self.lock_tables();
        let answer = |(tenant, key): &(TenantId, IdempotencyKey)| {
            Some(find_key(&tables, tenant, key)?.answer_request(key))
        };
        Ok(keys.iter().map(answer).collect())
    }

    async fn find_definitions(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<DefinitionRef>>> {
        let tables = self.lock_tables();
        let definition = |key| tables.executions.get(key).map(|row| row.definition.clone());
        Ok(executions.iter().map(definition).collect())
    }

    async fn page_undecided(
        &self,
        bands: Option<&[SweepBand]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>> {
        let within = |accepted: Timestamp| {
            bands.is_none_or(|bands| bands.iter().any(|band| band.after < accepted && accepted <= band.until))
        };
        let tables = self.lock_tables();
        Ok(tables
            .executions
            .iter()
            .filter(|(key, _)| after.is_none_or(|after| *key > after))
            .filter(|(_, row)| row.decidable_events().any(|event| within(event.view.created_at)))
            .map(|(key, _)| key.clone())
            .take(limit)
            .collect())
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<bool>> {
        let tables = self.lock_tables();
        let has_work = |key| {
            tables
                .executions
                .get(key)
                .is_some_and(|row: &MemoryExecution| row.decidable_events().next().is_some())
        };
        Ok(executions.iter().map(has_work).collect())
    }
}

fn append_event(tables: &mut MemoryTables, event: &EventSubmission, now: Timestamp) -> Appended {
    let Ok(judged) = acceptance::judge_event(tables, event);
    if let Some(answer) = judged {
        return answer;
    }
    use_key(tables, event, now);
    Appended::Accepted { accept_no: tables.insert_event(event, now) }
}

fn use_key(tables: &mut MemoryTables, event: &EventSubmission, now: Timestamp) {
    if let Some(idempotency) = &event.idempotency {
        let used =
            KeyUse { request_hash: idempotency.request_hash, event_id: event.event_id, created_at: now };
        tables.idempotency.insert((event.execution.tenant.clone(), idempotency.key.clone()), used);
    }
}

fn start_execution(tables: &mut MemoryTables, new: &ExecutionStart, now: Timestamp) -> Appended {
    let Ok(judged) = acceptance::judge_start(tables, new);
    if let Some(answer) = judged {
        return answer;
    }
    use_key(tables, &new.start, now);
    let transition = new.applied.transition.clone();
    let timers = transition.decision.timers.iter();
    let row = MemoryExecution {
        definition: new.definition.clone(),
        input_hash: new.input_hash,
        position: millstream_model::id::AcceptNo(0),
        seq: new.state.seq,
        phase: new.state.phase,
        paused: None,
        snapshot: new.state.clone(),
        created_at: new.state.at,
        updated_at: new.state.at,
        timers: timers.map(|timer| ((timer.armed_seq, timer.ordinal), timer.clone())).collect(),
        transitions: vec![transition],
        events: Default::default(),
        actions: Default::default(),
        decisions: Vec::new(),
        correlation: new.state.correlation.clone(),
        graph: new.graph.as_deref().map(GraphTable::from_rows),
    };
    tables.executions.insert(new.key.clone(), row);
    let position = tables.insert_event(&new.start, new.state.at);
    if let Some(row) = tables.executions.get_mut(&new.key) {
        row.position = position;
        if let Some(start) = row.events.get_mut(&position) {
            let view = &mut start.view;
            view.status = EventStatus::Completed;
            view.seq = Some(new.state.seq);
            view.to_state = Some(new.state.state.clone());
            view.started_at = Some(new.state.at);
            view.completed_at = Some(new.state.at);
        }
    }
    for event in &new.events {
        tables.insert_event(event, now);
    }
    if new.graph.is_some() {
        tables.feed_transitions(&new.key, new.state.seq, new.state.seq, now);
    }
    if new.state.correlation.is_some() {
        tables.deliver_signals(&new.key, now);
    }
    Appended::Accepted { accept_no: position }
}

impl AcceptanceFacts for MemoryTables {
    type Error = Infallible;

    fn used_key(&mut self, tenant: &TenantId, key: &IdempotencyKey) -> Result<Option<UsedKey>, Infallible> {
        Ok(find_key(self, tenant, key))
    }

    fn event_status(
        &mut self,
        tenant: &TenantId,
        event_id: EventId,
    ) -> Result<Option<EventStatus>, Infallible> {
        Ok(self.find_event(tenant, event_id).map(|event| event.view.status))
    }

    fn has_execution(&mut self, execution: &ExecutionKey) -> Result<bool, Infallible> {
        Ok(self.executions.contains_key(execution))
    }

    fn known_start(&mut self, execution: &ExecutionKey) -> Result<Option<KnownStart>, Infallible> {
        Ok(self.executions.get(execution).map(|row| KnownStart {
            input_hash: row.input_hash.to_vec(),
            event_id: row.events.get(&row.position).map(|start| start.view.event_id),
        }))
    }

    fn is_buffered(&mut self, tenant: &TenantId, signal: EventId) -> Result<bool, Infallible> {
        Ok(self.has_signal(tenant, signal))
    }

    fn signal_receivers(&mut self, signal: &SignalSubmission) -> Result<Vec<ExecutionKey>, Infallible> {
        Ok(self.correlated_executions(&signal.tenant, &signal.correlation, signal.definition.as_ref()))
    }
}

fn find_key(tables: &MemoryTables, tenant: &TenantId, key: &IdempotencyKey) -> Option<UsedKey> {
    let used = tables.idempotency.get(&(tenant.clone(), key.key.clone()))?;
    let event_id = used.event_id;
    let event = tables.find_event(tenant, event_id).map(|event| event.view.status);
    let status = used_key_status(event, tables.has_signal(tenant, event_id));
    Some(UsedKey { request_hash: used.request_hash.to_vec(), event_id, status })
}

//! Accepting, in memory.

use millstream_core::id::{DefinitionRef, ExecutionKey, TenantId};
use millstream_core::status::EventStatus;
use millstream_core::sweep::Band;
use millstream_core::time::Timestamp;

use super::Memory;
use super::graphs::GraphTable;
use super::tables::{Execution, KeyUse, Tables};
use crate::Result;
use crate::event_log::{Append, Appended, EventLog, Idempotency, NewEvent, NewExecution};

#[async_trait::async_trait]
impl EventLog for Memory {
    async fn append(&self, batch: &[Append], now: Timestamp) -> Result<Vec<Appended>> {
        let mut tables = self.tables();
        let verdicts = batch
            .iter()
            .map(|item| match item {
                Append::Start(new) => start(&mut tables, new, now),
                Append::Event(event) => append(&mut tables, event, now),
                Append::Signal(signal) => tables.signal(signal, now),
            })
            .collect();
        Ok(verdicts)
    }

    async fn seen(&self, keys: &[(TenantId, Idempotency)]) -> Result<Vec<Option<Appended>>> {
        let tables = self.tables();
        Ok(keys.iter().map(|(tenant, idempotency)| known_key(&tables, tenant, Some(idempotency))).collect())
    }

    async fn targets(&self, executions: &[ExecutionKey]) -> Result<Vec<Option<DefinitionRef>>> {
        let tables = self.tables();
        let definition = |key| tables.executions.get(key).map(|row| row.definition.clone());
        Ok(executions.iter().map(definition).collect())
    }

    async fn undecided(
        &self,
        bands: Option<&[Band]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> Result<Vec<ExecutionKey>> {
        let within = |accepted: Timestamp| {
            bands.is_none_or(|bands| bands.iter().any(|band| band.after < accepted && accepted <= band.until))
        };
        let tables = self.tables();
        Ok(tables
            .executions
            .iter()
            .filter(|(key, _)| after.is_none_or(|after| *key > after))
            .filter(|(_, row)| row.decidable().any(|event| within(event.view.created_at)))
            .map(|(key, _)| key.clone())
            .take(limit)
            .collect())
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> Result<Vec<bool>> {
        let tables = self.tables();
        let has_work =
            |key| tables.executions.get(key).is_some_and(|row: &Execution| row.decidable().next().is_some());
        Ok(executions.iter().map(has_work).collect())
    }
}

fn append(tables: &mut Tables, event: &NewEvent, now: Timestamp) -> Appended {
    let tenant = &event.execution.tenant;
    if let Some(existing) = tables.event(tenant, event.event_id) {
        return Appended::Repeat { event_id: event.event_id, status: existing.view.status };
    }
    if let Some(known) = known_key(tables, tenant, event.idempotency.as_ref()) {
        return known;
    }
    if !tables.executions.contains_key(&event.execution) {
        return Appended::NoExecution;
    }
    use_key(tables, event, now);
    Appended::Accepted { accept_no: tables.insert_event(event, now) }
}

fn use_key(tables: &mut Tables, event: &NewEvent, now: Timestamp) {
    if let Some(idempotency) = &event.idempotency {
        let used =
            KeyUse { request_hash: idempotency.request_hash, event_id: event.event_id, created_at: now };
        tables.idempotency.insert((event.execution.tenant.clone(), idempotency.key.clone()), used);
    }
}

fn start(tables: &mut Tables, new: &NewExecution, now: Timestamp) -> Appended {
    if let Some(known) = known_key(tables, &new.key.tenant, new.start.idempotency.as_ref()) {
        return known;
    }
    if let Some(existing) = tables.executions.get(&new.key) {
        if existing.input_hash != new.input_hash {
            return Appended::Mismatch;
        }
        return match existing.events.get(&existing.position) {
            Some(start) => Appended::Repeat { event_id: start.view.event_id, status: start.view.status },
            None => Appended::Mismatch,
        };
    }
    use_key(tables, &new.start, now);
    let transition = new.applied.transition.clone();
    let timers = transition.decision.timers.iter();
    let row = Execution {
        definition: new.definition.clone(),
        input_hash: new.input_hash,
        position: millstream_core::id::AcceptNo(0),
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
        graph: new.graph.as_deref().map(GraphTable::of),
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

/// The first event under a key, with its current status. Retention may have removed it; it removes only
/// finished ones.
pub(super) fn known_key(
    tables: &Tables,
    tenant: &TenantId,
    idempotency: Option<&Idempotency>,
) -> Option<Appended> {
    let idempotency = idempotency?;
    let used = tables.idempotency.get(&(tenant.clone(), idempotency.key.clone()))?;
    if used.request_hash != idempotency.request_hash {
        return Some(Appended::Mismatch);
    }
    let event_id = used.event_id;
    let buffered = tables.signals.iter().any(|(signal, _)| signal.event_id == event_id);
    let gone = if buffered { EventStatus::Pending } else { EventStatus::Completed };
    let status = tables.event(tenant, event_id).map_or(gone, |event| event.view.status);
    Some(Appended::Repeat { event_id, status })
}

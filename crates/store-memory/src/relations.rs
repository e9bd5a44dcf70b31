//! Children, correlations and buffered signals, in memory.

use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, Name, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::acceptance::{self, SignalJudgement};
use millstream_store::event_log::{Appended, SignalSubmission};
use millstream_store::relations::{Relations, SignalView};
use millstream_workflow::definition::ParentClose;

use crate::MemoryStore;
use crate::tables::{KeyUse, MemoryExecution, MemoryTables};

#[async_trait::async_trait]
impl Relations for MemoryStore {
    async fn list_children(
        &self,
        parent: &ExecutionKey,
        close: ParentClose,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>> {
        let tables = self.lock_tables();
        let is_child = |key: &ExecutionKey, row: &MemoryExecution| {
            let of_parent = row.snapshot.parent.as_ref().is_some_and(|of| {
                key.tenant == parent.tenant && of.execution == parent.execution && of.close == close
            });
            of_parent && !row.phase.is_ended() && after.is_none_or(|after| key > after)
        };
        let children = tables.executions.iter().filter(|(key, row)| is_child(key, row));
        Ok(children.map(|(key, _)| key.clone()).take(limit).collect())
    }

    async fn find_correlated(
        &self,
        tenant: &TenantId,
        correlation: &str,
        definition: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<(ExecutionKey, DefinitionRef)>> {
        let tables = self.lock_tables();
        let found = tables.correlated_executions(tenant, correlation, definition);
        let with_definition = |key: ExecutionKey| {
            let definition = tables.executions.get(&key)?.definition.clone();
            Some((key, definition))
        };
        Ok(found.into_iter().filter_map(with_definition).take(limit).collect())
    }

    async fn find_signals(&self, keys: &[(TenantId, EventId)]) -> StoreResult<Vec<Option<SignalView>>> {
        let tables = self.lock_tables();
        let view = |(tenant, id): &(TenantId, EventId)| {
            let (signal, created_at) = tables
                .signals
                .iter()
                .find(|(signal, _)| signal.tenant == *tenant && signal.event_id == *id)?;
            Some(SignalView {
                event_id: signal.event_id,
                correlation: signal.correlation.clone(),
                definition: signal.definition.clone(),
                name: signal.name.clone(),
                payload: signal.payload.clone(),
                actor: signal.actor.clone(),
                created_at: *created_at,
                expires_at: signal.expires_at,
            })
        };
        Ok(keys.iter().map(view).collect())
    }
}

impl MemoryTables {
    pub(crate) fn has_signal(&self, tenant: &TenantId, id: EventId) -> bool {
        self.signals.iter().any(|(signal, _)| signal.tenant == *tenant && signal.event_id == id)
    }

    pub(crate) fn correlated_executions(
        &self,
        tenant: &TenantId,
        correlation: &str,
        definition: Option<&Name>,
    ) -> Vec<ExecutionKey> {
        self.executions
            .iter()
            .filter(|(key, row)| key.tenant == *tenant && !row.phase.is_ended())
            .filter(|(_, row)| row.correlation.as_deref() == Some(correlation))
            .filter(|(_, row)| definition.is_none_or(|name| row.definition.name == *name))
            .map(|(key, _)| key.clone())
            .collect()
    }

    pub(crate) fn accept_signal(&mut self, signal: &SignalSubmission, now: Timestamp) -> Appended {
        let Ok(judged) = acceptance::judge_signal(self, signal);
        let appended = match judged {
            SignalJudgement::Answer(answer) => return answer,
            SignalJudgement::Buffer => {
                self.signals.push((signal.clone(), now));
                Appended::Buffered
            }
            SignalJudgement::Deliver(execution) => {
                let accept_no = self.insert_event(&signal.as_event(&execution), now);
                Appended::Delivered { execution, accept_no }
            }
        };
        if let Some(key) = &signal.idempotency {
            let used = KeyUse { request_hash: key.request_hash, event_id: signal.event_id, created_at: now };
            self.idempotency.insert((signal.tenant.clone(), key.key.clone()), used);
        }
        appended
    }

    /// Buffered signals for an execution's correlation become its events.
    pub(crate) fn deliver_signals(&mut self, key: &ExecutionKey, now: Timestamp) {
        let Some(row) = self.executions.get_mut(key) else { return };
        row.correlation = row.current_correlation();
        let Some(correlation) = row.correlation.clone().filter(|_| !row.phase.is_ended()) else { return };
        let definition = row.definition.name.clone();
        let is_for_it = |signal: &SignalSubmission| {
            signal.tenant == key.tenant
                && signal.correlation == correlation
                && signal.fits_definition(&definition)
                && signal.expires_at > now
        };
        let (delivered, kept) =
            std::mem::take(&mut self.signals).into_iter().partition(|(signal, _)| is_for_it(signal));
        self.signals = kept;
        let delivered: Vec<(SignalSubmission, Timestamp)> = delivered;
        for (signal, _) in delivered {
            self.insert_event(&signal.as_event(key), now);
        }
    }
}

impl MemoryExecution {
    /// As set by the newest transition that sets one.
    fn current_correlation(&self) -> Option<String> {
        self.transitions.iter().rev().find_map(|transition| transition.decision.correlation.clone())
    }
}

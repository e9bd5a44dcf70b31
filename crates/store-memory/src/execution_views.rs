//! Views of executions, in memory.

use millstream_model::id::{AcceptNo, ExecutionKey, Seq, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionStatus;
use millstream_store::StoreResult;
use millstream_store::execution_store::PageRemainder;
use millstream_store::paging::cut_history;
use millstream_store::views::{
    ActionPlace, ActionRecord, ExecutionFilter, ExecutionView, ExecutionViews, HistoryEntry, HistoryPage,
    TimerPlace, TimerView,
};
use millstream_workflow::machine::evolve;

use crate::MemoryStore;
use crate::tables::{MemoryExecution, MemoryTables};

#[async_trait::async_trait]
impl ExecutionViews for MemoryStore {
    async fn find_executions(&self, keys: &[ExecutionKey]) -> StoreResult<Vec<Option<ExecutionView>>> {
        let tables = self.lock_tables();
        Ok(keys.iter().map(|key| tables.executions.get(key).map(|row| execution_view(key, row))).collect())
    }

    async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionView>> {
        let tables = self.lock_tables();
        let mut found: Vec<_> = tables
            .executions
            .iter()
            .filter(|(key, _)| key.tenant == *tenant)
            .map(|(key, row)| execution_view(key, row))
            .filter(|view| after.is_none_or(|after| view.position < after))
            .filter(|view| filter.definition.as_ref().is_none_or(|name| view.definition.name == *name))
            .filter(|view| filter.state.as_ref().is_none_or(|state| view.state.state == *state))
            .filter(|view| filter.status.is_none_or(|status| view.status == status))
            .collect();
        found.sort_by_key(|view| std::cmp::Reverse(view.position));
        found.truncate(limit);
        Ok(found)
    }

    async fn read_history(
        &self,
        execution: &ExecutionKey,
        after: Seq,
        limit: usize,
    ) -> StoreResult<HistoryPage> {
        let tables = self.lock_tables();
        let sizes = history_entries(&tables, execution, after)
            .take(limit.saturating_add(1))
            .map(|entry| entry_size(&entry));
        Ok(match cut_history(sizes, limit) {
            None => HistoryPage { entries: Vec::new(), more: PageRemainder::Nothing },
            Some((last, more)) => {
                let entries = history_entries(&tables, execution, after);
                HistoryPage {
                    entries: entries.take_while(|entry| entry.transition.seq <= last).collect(),
                    more,
                }
            }
        })
    }

    async fn list_actions(
        &self,
        execution: &ExecutionKey,
        after: Option<ActionPlace>,
        limit: usize,
    ) -> StoreResult<Vec<ActionRecord>> {
        let tables = self.lock_tables();
        let rows = tables.executions.get(execution).into_iter().flat_map(|row| row.actions.values());
        let mut views: Vec<_> = rows.map(|action| action.view.clone()).collect();
        views.retain(|view| after.is_none_or(|after| view.place() > after));
        views.sort_by_key(ActionRecord::place);
        views.truncate(limit);
        Ok(views)
    }

    async fn list_timers(
        &self,
        execution: &ExecutionKey,
        after: Option<TimerPlace>,
        limit: usize,
    ) -> StoreResult<Vec<TimerView>> {
        let tables = self.lock_tables();
        let rows = tables.executions.get(execution).into_iter().flat_map(|row| row.timers.values());
        let mut views: Vec<_> = rows
            .map(|timer| TimerView {
                armed_seq: timer.armed_seq,
                ordinal: timer.ordinal,
                send: timer.send.clone(),
                fire_at: timer.fire_at,
            })
            .collect();
        views.retain(|view| after.is_none_or(|after| view.place() > after));
        views.sort_by_key(TimerView::place);
        views.truncate(limit);
        Ok(views)
    }
}

fn execution_view(key: &ExecutionKey, row: &MemoryExecution) -> ExecutionView {
    let later = row.transitions.iter().filter(|transition| transition.seq > row.snapshot.seq);
    ExecutionView {
        execution: key.clone(),
        position: row.position,
        definition: row.definition.clone(),
        status: ExecutionStatus::of_phase(row.phase, row.pause_state()),
        state: later.fold(row.snapshot.clone(), |state, transition| evolve(Some(state), transition)),
        paused_reason: row.paused.clone(),
        unreadable: None,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

fn entry_size(entry: &HistoryEntry) -> (Seq, usize) {
    let decision = RawJson::from_value(&entry.transition.decision);
    (entry.transition.seq, entry.payload.len() + decision.len())
}

fn history_entries<'a>(
    tables: &'a MemoryTables,
    execution: &'a ExecutionKey,
    after: Seq,
) -> impl Iterator<Item = HistoryEntry> + 'a {
    let rows = tables.executions.get(execution).into_iter().flat_map(|row| &row.transitions);
    rows.filter(move |transition| transition.seq > after).filter_map(|transition| {
        let event = tables.find_event(&execution.tenant, transition.event_id)?;
        Some(HistoryEntry {
            transition: transition.clone(),
            payload: event.view.payload.clone(),
            accepted_at: event.view.created_at,
            origin: event.origin,
        })
    })
}

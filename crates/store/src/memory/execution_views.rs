//! Views of executions, in memory.

use millstream_core::id::{AcceptNo, ExecutionKey, Seq, TenantId};
use millstream_core::machine::evolve;
use millstream_core::raw::RawJson;
use millstream_core::status::ExecutionStatus;

use super::Memory;
use super::tables::{Execution, Tables};
use crate::Result;
use crate::execution_store::More;
use crate::paging::cut_history;
use crate::views::{
    ActionPlace, ActionView, ExecutionFilter, ExecutionView, ExecutionViews, HistoryEntry, HistoryPage,
    TimerPlace, TimerView,
};

#[async_trait::async_trait]
impl ExecutionViews for Memory {
    async fn executions(&self, keys: &[ExecutionKey]) -> Result<Vec<Option<ExecutionView>>> {
        let tables = self.tables();
        Ok(keys.iter().map(|key| tables.executions.get(key).map(|row| view(key, row))).collect())
    }

    async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> Result<Vec<ExecutionView>> {
        let tables = self.tables();
        let mut found: Vec<_> = tables
            .executions
            .iter()
            .filter(|(key, _)| key.tenant == *tenant)
            .map(|(key, row)| view(key, row))
            .filter(|view| after.is_none_or(|after| view.position < after))
            .filter(|view| filter.definition.as_ref().is_none_or(|name| view.definition.name == *name))
            .filter(|view| filter.state.as_ref().is_none_or(|state| view.state.state == *state))
            .filter(|view| filter.status.is_none_or(|status| view.status == status))
            .collect();
        found.sort_by_key(|view| std::cmp::Reverse(view.position));
        found.truncate(limit);
        Ok(found)
    }

    async fn history(&self, execution: &ExecutionKey, after: Seq, limit: usize) -> Result<HistoryPage> {
        let tables = self.tables();
        let sizes =
            entries(&tables, execution, after).take(limit.saturating_add(1)).map(|entry| weight(&entry));
        Ok(match cut_history(sizes, limit) {
            None => HistoryPage { entries: Vec::new(), more: More::Nothing },
            Some((last, more)) => {
                let entries = entries(&tables, execution, after);
                HistoryPage {
                    entries: entries.take_while(|entry| entry.transition.seq <= last).collect(),
                    more,
                }
            }
        })
    }

    async fn actions(
        &self,
        execution: &ExecutionKey,
        after: Option<ActionPlace>,
        limit: usize,
    ) -> Result<Vec<ActionView>> {
        let tables = self.tables();
        let rows = tables.executions.get(execution).into_iter().flat_map(|row| row.actions.values());
        let mut views: Vec<_> = rows.map(|action| action.view.clone()).collect();
        views.retain(|view| after.is_none_or(|after| view.place() > after));
        views.sort_by_key(ActionView::place);
        views.truncate(limit);
        Ok(views)
    }

    async fn timers(
        &self,
        execution: &ExecutionKey,
        after: Option<TimerPlace>,
        limit: usize,
    ) -> Result<Vec<TimerView>> {
        let tables = self.tables();
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

fn view(key: &ExecutionKey, row: &Execution) -> ExecutionView {
    let later = row.transitions.iter().filter(|transition| transition.seq > row.snapshot.seq);
    ExecutionView {
        execution: key.clone(),
        position: row.position,
        definition: row.definition.clone(),
        status: ExecutionStatus::of(row.phase, row.pause_state()),
        state: later.fold(row.snapshot.clone(), |state, transition| evolve(Some(state), transition)),
        paused_reason: row.paused.clone(),
        unreadable: None,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

fn weight(entry: &HistoryEntry) -> (Seq, usize) {
    let decision = RawJson::of(&entry.transition.decision);
    (entry.transition.seq, entry.payload.len() + decision.len())
}

fn entries<'a>(
    tables: &'a Tables,
    execution: &'a ExecutionKey,
    after: Seq,
) -> impl Iterator<Item = HistoryEntry> + 'a {
    let rows = tables.executions.get(execution).into_iter().flat_map(|row| &row.transitions);
    rows.filter(move |transition| transition.seq > after).filter_map(|transition| {
        let event = tables.event(&execution.tenant, transition.event_id)?;
        Some(HistoryEntry {
            transition: transition.clone(),
            payload: event.view.payload.clone(),
            accepted_at: event.view.created_at,
            origin: event.origin,
        })
    })
}

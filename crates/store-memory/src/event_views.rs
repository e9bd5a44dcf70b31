//! Views of events, in memory.

use millstream_model::id::{AcceptNo, EventId, TenantId};
use millstream_model::status::{EventStatus, ExecutionStatus};
use millstream_store::StoreResult;
use millstream_store::views::{EventBacklog, EventFilter, EventView, EventViews};

use crate::MemoryStore;

#[async_trait::async_trait]
impl EventViews for MemoryStore {
    async fn find_events(&self, keys: &[(TenantId, EventId)]) -> StoreResult<Vec<Option<EventView>>> {
        let tables = self.lock_tables();
        let find = |(tenant, event): &(TenantId, EventId)| {
            tables.find_event(tenant, *event).map(|event| event.view.clone())
        };
        Ok(keys.iter().map(find).collect())
    }

    async fn list_events(
        &self,
        tenant: &TenantId,
        filter: &EventFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> StoreResult<Vec<EventView>> {
        let tables = self.lock_tables();
        let mut found: Vec<_> = tables
            .executions
            .iter()
            .filter(|(key, _)| key.tenant == *tenant)
            .filter(|(key, _)| filter.execution.as_ref().is_none_or(|id| key.execution == *id))
            .flat_map(|(_, row)| row.events.values())
            .filter(|event| after.is_none_or(|after| event.view.accept_no > after))
            .filter(|event| filter.status.is_none_or(|status| event.view.status == status))
            .map(|event| event.view.clone())
            .collect();
        found.sort_by_key(|view| view.accept_no);
        found.truncate(limit);
        Ok(found)
    }

    async fn count_backlog(&self) -> StoreResult<EventBacklog> {
        let tables = self.lock_tables();
        let mut backlog = EventBacklog::default();
        for row in tables.executions.values() {
            if ExecutionStatus::of_phase(row.phase, row.pause_state()) == ExecutionStatus::Paused {
                backlog.paused += 1;
            }
            for event in row.events.values() {
                match event.view.status {
                    EventStatus::Pending => {
                        let accepted = event.view.created_at;
                        backlog.undecided += 1;
                        backlog.oldest = Some(backlog.oldest.map_or(accepted, |oldest| oldest.min(accepted)));
                    }
                    EventStatus::Dead => backlog.dead += 1,
                    EventStatus::Deferred
                    | EventStatus::Processing
                    | EventStatus::Completed
                    | EventStatus::Rejected
                    | EventStatus::Failed => {}
                }
            }
            let open = row.actions.values().filter(|action| !action.view.status.is_settled());
            backlog.open_actions += u64::try_from(open.count()).unwrap_or(u64::MAX);
        }
        let open = tables.incidents.iter().filter(|view| view.resolved.is_none());
        backlog.incidents = u64::try_from(open.count()).unwrap_or(u64::MAX);
        Ok(backlog)
    }
}

//! Views of assignments and items, in memory.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use millstream_model::id::{AssignmentId, ItemKey, Name, PersonId, TenantId};
use millstream_people::assignment::stats::AssignmentTotals;
use millstream_people::assignment::{ItemAssignment, ItemLogEntry};
use millstream_store::StoreResult;
use millstream_store::assignments::{AssignmentFilter, AssignmentViews, ItemFilter, ItemView, TotalsFilter};

use crate::MemoryStore;

#[async_trait::async_trait]
impl AssignmentViews for MemoryStore {
    async fn list_assignments(
        &self,
        tenant: &TenantId,
        filter: &AssignmentFilter,
        after: Option<AssignmentId>,
        limit: usize,
    ) -> StoreResult<Vec<ItemAssignment>> {
        let tables = self.lock_tables();
        let rows = tables.people.items.iter().filter(|(key, _)| key.tenant == *tenant);
        let all = rows.flat_map(|(_, row)| row.work.assignments.values());
        let mut found: Vec<ItemAssignment> = all
            .filter(|one| filter.matches_assignment(one) && after.is_none_or(|after| one.id < after))
            .cloned()
            .collect();
        found.sort_by_key(|one| std::cmp::Reverse(one.id));
        found.truncate(limit);
        Ok(found)
    }

    async fn list_items(
        &self,
        tenant: &TenantId,
        filter: &ItemFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<ItemView>> {
        let tables = self.lock_tables();
        let rows = tables.people.items.iter().filter(|(key, _)| key.tenant == *tenant).map(|(_, row)| row);
        let mut found: Vec<ItemView> = rows
            .filter(|row| {
                let item = &row.work.item;
                filter.queue.as_ref().is_none_or(|queue| *queue == item.queue)
                    && filter.status.is_none_or(|status| status == item.status)
                    && after.is_none_or(|after| row.position < after)
            })
            .map(|row| ItemView {
                item: row.work.item.clone(),
                payload: row.work.payload.clone(),
                version: row.version,
                position: row.position,
            })
            .collect();
        found.sort_by_key(|view| std::cmp::Reverse(view.position));
        found.truncate(limit);
        Ok(found)
    }

    async fn item_log(&self, item: &ItemKey, after: u32, limit: usize) -> StoreResult<Vec<ItemLogEntry>> {
        let tables = self.lock_tables();
        let Some(row) = tables.people.items.get(item) else { return Ok(Vec::new()) };
        Ok(row.log.iter().filter(|entry| entry.no > after).take(limit).cloned().collect())
    }

    async fn sum_totals(
        &self,
        tenant: &TenantId,
        filter: &TotalsFilter,
    ) -> StoreResult<Vec<(Name, Option<PersonId>, AssignmentTotals)>> {
        let tables = self.lock_tables();
        let mut sums: BTreeMap<(Name, Option<PersonId>), AssignmentTotals> = BTreeMap::new();
        for ((owner, queue, person, day), totals) in &tables.people.totals {
            let wanted = owner == tenant
                && filter.queue.as_ref().is_none_or(|wanted| wanted == queue)
                && filter.person.as_ref().is_none_or(|wanted| person.as_ref() == Some(wanted))
                && filter.from_day.is_none_or(|from| *day >= from)
                && filter.to_day.is_none_or(|to| *day <= to);
            if wanted {
                sums.entry((queue.clone(), person.clone())).or_default().merge(totals);
            }
        }
        Ok(sums.into_iter().map(|((queue, person), totals)| (queue, person, totals)).collect())
    }

    async fn totals_by_queue(
        &self,
        days: RangeInclusive<i64>,
    ) -> StoreResult<Vec<(TenantId, Name, AssignmentTotals)>> {
        let tables = self.lock_tables();
        let mut sums: BTreeMap<(TenantId, Name), AssignmentTotals> = BTreeMap::new();
        for ((tenant, queue, _, day), totals) in &tables.people.totals {
            if days.contains(day) {
                sums.entry((tenant.clone(), queue.clone())).or_default().merge(totals);
            }
        }
        Ok(sums.into_iter().map(|((tenant, queue), totals)| (tenant, queue, totals)).collect())
    }
}

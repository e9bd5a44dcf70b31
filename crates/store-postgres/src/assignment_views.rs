//! Views of assignments and items. Read-only. Each list walks the index that its filter begins with.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use millstream_model::id::{AssignmentId, ItemId, ItemKey, Name, PersonId, TenantId};
use millstream_people::assignment::stats::AssignmentTotals;
use millstream_people::assignment::{AssignmentStatus, ItemAssignment, ItemLogEntry};
use millstream_store::StoreResult;
use millstream_store::assignments::{AssignmentFilter, AssignmentViews, ItemFilter, ItemView, TotalsFilter};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;
use crate::item_rows;

/// All totals as one array.
macro_rules! sums {
    () => {
        "ARRAY[sum(created), sum(started), sum(completed), sum(skipped), sum(expired_pending), sum(expired_started),
             sum(completing_millis), sum(completed_attempts), sum(items_imported), sum(items_done),
             sum(items_failed), sum(items_withdrawn), sum(items_escalated)]::bigint[] AS sums"
    };
}

fn rows_at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[async_trait]
impl AssignmentViews for PostgresStore {
    async fn list_assignments(
        &self,
        tenant: &TenantId,
        filter: &AssignmentFilter,
        after: Option<AssignmentId>,
        limit: usize,
    ) -> StoreResult<Vec<ItemAssignment>> {
        const OF_ITEM: &str = "
SELECT a.body FROM assignments a
WHERE a.item = $3 AND a.tenant = $1 AND a.assignment < $2 AND ($4::text IS NULL OR a.person = $4)
  AND ($5::text IS NULL OR a.queue = $5) AND a.status = ANY($6)
ORDER BY a.assignment DESC LIMIT $7";
        const OF_PERSON: &str = "
SELECT a.body FROM assignments a
WHERE a.person = $4 AND a.tenant = $1 AND a.assignment < $2 AND ($3::text IS NULL OR a.item = $3)
  AND ($5::text IS NULL OR a.queue = $5) AND a.status = ANY($6)
ORDER BY a.assignment DESC LIMIT $7";
        const OF_QUEUE: &str = "
SELECT a.body FROM unnest($6::text[]) AS k(status)
CROSS JOIN LATERAL (
    SELECT a.assignment, a.body FROM assignments a
    WHERE a.status = k.status AND a.queue = $5 AND a.tenant = $1 AND a.assignment < $2
      AND ($3::text IS NULL OR a.item = $3) AND ($4::text IS NULL OR a.person = $4)
    ORDER BY a.assignment DESC LIMIT $7
) a
ORDER BY a.assignment DESC LIMIT $7";
        const OF_TENANT: &str = "
SELECT a.body FROM assignments a
WHERE a.tenant = $1 AND a.assignment < $2 AND ($3::text IS NULL OR a.item = $3)
  AND ($4::text IS NULL OR a.person = $4) AND ($5::text IS NULL OR a.queue = $5) AND a.status = ANY($6)
ORDER BY a.assignment DESC LIMIT $7";
        let statement = match (&filter.item, &filter.person, &filter.queue) {
            (Some(_), _, _) => OF_ITEM,
            (None, Some(_), _) => OF_PERSON,
            (None, None, Some(_)) => OF_QUEUE,
            (None, None, None) => OF_TENANT,
        };
        let all = || AssignmentStatus::ALL.iter().map(|status| status.as_str()).collect();
        let statuses: Vec<&str> = filter.status.map_or_else(all, |status| vec![status.as_str()]);
        self.without_retries(async {
            let rows = sqlx::query(statement)
                .bind(tenant.as_str())
                .bind(after.map_or(Uuid::max(), |after| after.0))
                .bind(filter.item.as_ref().map(ItemId::as_str))
                .bind(filter.person.as_ref().map(PersonId::as_str))
                .bind(filter.queue.as_ref().map(Name::as_str))
                .bind(&statuses)
                .bind(rows_at_most(limit))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(|row| decode::list(row, "body")).collect()
        })
        .await
    }

    async fn list_items(
        &self,
        tenant: &TenantId,
        filter: &ItemFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<ItemView>> {
        const OF_TENANT: &str = "
SELECT * FROM items WHERE tenant = $1 AND position < $2 AND ($3::text IS NULL OR queue = $3)
  AND ($4::text IS NULL OR status = $4)
ORDER BY position DESC LIMIT $5";
        const OF_QUEUE: &str = "
SELECT * FROM items WHERE queue = $3 AND tenant = $1 AND position < $2 AND ($4::text IS NULL OR status = $4)
ORDER BY position DESC LIMIT $5";
        const OF_STATUS: &str = "
SELECT * FROM items WHERE status = $4 AND queue = $3 AND tenant = $1 AND position < $2
ORDER BY position DESC LIMIT $5";
        let statement = match (&filter.queue, filter.status) {
            (Some(_), Some(_)) => OF_STATUS,
            (Some(_), None) => OF_QUEUE,
            (None, _) => OF_TENANT,
        };
        self.without_retries(async {
            let rows = sqlx::query(statement)
                .bind(tenant.as_str())
                .bind(after.unwrap_or(i64::MAX))
                .bind(filter.queue.as_ref().map(Name::as_str))
                .bind(filter.status.map(|status| status.as_str()))
                .bind(rows_at_most(limit))
                .fetch_all(&self.pool)
                .await?;
            rows.iter()
                .map(|row| {
                    Ok(ItemView {
                        item: item_rows::decode_item(row)?,
                        payload: decode::json(row, "payload")?,
                        version: row.try_get("version")?,
                        position: row.try_get("position")?,
                    })
                })
                .collect()
        })
        .await
    }

    async fn item_log(&self, item: &ItemKey, after: u32, limit: usize) -> StoreResult<Vec<ItemLogEntry>> {
        const READ: &str = "
SELECT body FROM item_log WHERE item = $2 AND tenant = $1 AND no > $3 ORDER BY no LIMIT $4";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(item.tenant.as_str())
                .bind(item.item.as_str())
                .bind(i64::from(after))
                .bind(rows_at_most(limit))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(|row| decode::list(row, "body")).collect()
        })
        .await
    }

    async fn sum_totals(
        &self,
        tenant: &TenantId,
        filter: &TotalsFilter,
    ) -> StoreResult<Vec<(Name, Option<PersonId>, AssignmentTotals)>> {
        const SUM: &str = concat!(
            "
SELECT queue, person, ",
            sums!(),
            " FROM queue_totals
WHERE tenant = $1 AND ($2::text IS NULL OR queue = $2) AND ($3::text IS NULL OR person = $3)
  AND day >= $4 AND day <= $5
GROUP BY queue, person ORDER BY queue, person"
        );
        self.without_retries(async {
            let rows = sqlx::query(SUM)
                .bind(tenant.as_str())
                .bind(filter.queue.as_ref().map(Name::as_str))
                .bind(filter.person.as_ref().map(PersonId::as_str))
                .bind(filter.from_day.unwrap_or(i64::MIN))
                .bind(filter.to_day.unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter()
                .map(|row| {
                    let totals = decode_totals(row)?;
                    let person: &str = row.try_get("person")?;
                    let person = if person.is_empty() { None } else { Some(decode::parsed(row, "person")?) };
                    Ok((decode::parsed(row, "queue")?, person, totals))
                })
                .collect()
        })
        .await
    }

    async fn totals_by_queue(
        &self,
        days: RangeInclusive<i64>,
    ) -> StoreResult<Vec<(TenantId, Name, AssignmentTotals)>> {
        const SUM: &str = concat!(
            "
SELECT tenant, queue, ",
            sums!(),
            " FROM queue_totals WHERE day >= $1 AND day <= $2 GROUP BY tenant, queue ORDER BY tenant, queue"
        );
        self.without_retries(async {
            let query = sqlx::query(SUM).bind(*days.start()).bind(*days.end());
            let rows = query.fetch_all(&self.pool).await?;
            rows.iter()
                .map(|row| {
                    Ok((decode::parsed(row, "tenant")?, decode::parsed(row, "queue")?, decode_totals(row)?))
                })
                .collect()
        })
        .await
    }
}

fn decode_totals(row: &PgRow) -> PostgresResult<AssignmentTotals> {
    let mut totals = AssignmentTotals::default();
    for (sum, read) in totals.0.iter_mut().zip(row.try_get::<Vec<i64>, _>("sums")?) {
        *sum = read;
    }
    Ok(totals)
}

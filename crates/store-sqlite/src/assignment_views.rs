//! Looking at people's work. Nothing in here writes.

use std::ops::RangeInclusive;

use millstream_model::id::{AssignmentId, ItemKey, Name, PersonId, TenantId};
use millstream_people::assignment::stats::AssignmentTotals;
use millstream_people::assignment::{ItemAssignment, ItemLogEntry};
use millstream_store::StoreResult;
use millstream_store::assignments::{AssignmentFilter, AssignmentViews, ItemFilter, ItemView, TotalsFilter};
use rusqlite::params_from_iter;
use rusqlite::types::Value;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::item_rows::decode_item;
use crate::param;

/// All totals, one after the other.
macro_rules! sums {
    () => {
        "sum(created), sum(started), sum(completed), sum(skipped), sum(expired_pending), sum(expired_started),
         sum(completing_millis), sum(completed_attempts), sum(items_imported), sum(items_done), sum(items_failed),
         sum(items_withdrawn), sum(items_escalated)"
    };
}

/// Conditions with their values; each one is a prefix of an index, or filters its rows.
#[derive(Default)]
struct WhereClause {
    text: String,
    values: Vec<Value>,
}

impl WhereClause {
    fn add_condition(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        let place = format!("?{}", self.values.len());
        let joint = if self.text.is_empty() { "WHERE " } else { " AND " };
        self.text.push_str(joint);
        self.text.push_str(&condition.replace('?', &place));
    }

    fn and_text(&mut self, condition: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add_condition(condition, value.to_owned());
        }
    }
}

#[async_trait::async_trait]
impl AssignmentViews for SqliteStore {
    async fn list_assignments(
        &self,
        tenant: &TenantId,
        filter: &AssignmentFilter,
        after: Option<AssignmentId>,
        limit: usize,
    ) -> StoreResult<Vec<ItemAssignment>> {
        let mut wanted = WhereClause::default();
        wanted.add_condition("tenant = ?", tenant.as_str().to_owned());
        wanted.and_text("item = ?", filter.item.as_ref().map(AsRef::as_ref));
        wanted.and_text("person = ?", filter.person.as_ref().map(AsRef::as_ref));
        wanted.and_text("queue = ?", filter.queue.as_ref().map(AsRef::as_ref));
        wanted.and_text("status = ?", filter.status.map(|status| status.as_str()));
        if let Some(after) = after {
            wanted.add_condition("assignment < ?", after.0.as_bytes().to_vec());
        }
        let list =
            format!("SELECT body FROM assignments {} ORDER BY assignment DESC LIMIT {limit}", wanted.text);
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(&list)?;
            let mut rows = read.query(params_from_iter(wanted.values))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(SqliteFields(row).json("body")?);
            }
            Ok(found)
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
        let mut wanted = WhereClause::default();
        wanted.add_condition("tenant = ?", tenant.as_str().to_owned());
        wanted.and_text("queue = ?", filter.queue.as_ref().map(AsRef::as_ref));
        wanted.and_text("status = ?", filter.status.map(|status| status.as_str()));
        if let Some(after) = after {
            wanted.add_condition("position < ?", after);
        }
        let list = format!(
            "SELECT body, payload, version, position FROM items {} ORDER BY position DESC LIMIT {limit}",
            wanted.text
        );
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(&list)?;
            let mut rows = read.query(params_from_iter(wanted.values))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                found.push(ItemView {
                    item: decode_item(row, "body")?,
                    payload: row.raw("payload")?,
                    version: row.int("version")?,
                    position: row.int("position")?,
                });
            }
            Ok(found)
        })
        .await
    }

    async fn item_log(&self, item: &ItemKey, after: u32, limit: usize) -> StoreResult<Vec<ItemLogEntry>> {
        const READ: &str = "
            SELECT body FROM item_log WHERE tenant = ?1 AND item = ?2 AND no > ?3 ORDER BY no LIMIT ?4";
        let key = item.clone();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(READ)?;
            let row = (key.tenant.as_str(), key.item.as_str(), after, param::limit(limit));
            let mut rows = read.query(row)?;
            let mut log = Vec::new();
            while let Some(row) = rows.next()? {
                log.push(SqliteFields(row).json("body")?);
            }
            Ok(log)
        })
        .await
    }

    async fn sum_totals(
        &self,
        tenant: &TenantId,
        filter: &TotalsFilter,
    ) -> StoreResult<Vec<(Name, Option<PersonId>, AssignmentTotals)>> {
        let mut wanted = WhereClause::default();
        wanted.add_condition("tenant = ?", tenant.as_str().to_owned());
        wanted.and_text("queue = ?", filter.queue.as_ref().map(AsRef::as_ref));
        wanted.and_text("person = ?", filter.person.as_ref().map(AsRef::as_ref));
        if let Some(from) = filter.from_day {
            wanted.add_condition("day >= ?", from);
        }
        if let Some(to) = filter.to_day {
            wanted.add_condition("day <= ?", to);
        }
        let list = format!(
            concat!(
                "SELECT queue, person, ",
                sums!(),
                " FROM queue_totals {} GROUP BY queue, person ORDER BY queue, person"
            ),
            wanted.text
        );
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(&list)?;
            let mut rows = read.query(params_from_iter(wanted.values))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                let totals = decode_totals(row, 2)?;
                let person = if row.text(1)?.is_empty() { None } else { Some(row.id(1)?) };
                found.push((row.id(0)?, person, totals));
            }
            Ok(found)
        })
        .await
    }

    async fn totals_by_queue(
        &self,
        days: RangeInclusive<i64>,
    ) -> StoreResult<Vec<(TenantId, Name, AssignmentTotals)>> {
        const SUM: &str = concat!(
            "SELECT tenant, queue, ",
            sums!(),
            " FROM queue_totals WHERE day >= ?1 AND day <= ?2 GROUP BY tenant, queue ORDER BY tenant, queue"
        );
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(SUM)?;
            let mut rows = read.query((*days.start(), *days.end()))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                found.push((row.id(0)?, row.id(1)?, decode_totals(row, 2)?));
            }
            Ok(found)
        })
        .await
    }
}

/// The totals that begin at this column.
fn decode_totals(row: SqliteFields<'_>, first: usize) -> SqliteResult<AssignmentTotals> {
    let mut totals = AssignmentTotals::default();
    for (at, sum) in (first..).zip(&mut totals.0) {
        *sum = row.int(at)?;
    }
    Ok(totals)
}

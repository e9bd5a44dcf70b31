//! Notices about runs and items, in memory.

use std::collections::BTreeMap;

use millstream_model::id::{Name, TenantId};
use millstream_model::notice::Notice;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::notices::{DueNotice, NoticeBacklog, NoticeBackoff, Notices};

use crate::MemoryStore;
use crate::outbound_rows::NoticeRow;
use crate::tables::MemoryTables;

/// Written with the change that it describes.
pub(crate) fn write(tables: &mut MemoryTables, notices: Vec<(&TenantId, Notice)>) {
    for (tenant, notice) in notices {
        tables.last_notice += 1;
        let (position, due_at) = (tables.last_notice, notice.at);
        let tenant = tenant.clone();
        tables.notices.push(NoticeRow { position, sink: None, tenant, notice, due_at, attempts: 0 });
    }
}

impl NoticeRow {
    fn is_about_the_same(&self, other: &Self) -> bool {
        let subject =
            |row: &Self| (row.notice.kind.subject_kind(), row.notice.subject.clone(), row.tenant.clone());
        self.sink == other.sink && subject(self) == subject(other)
    }
}

#[async_trait::async_trait]
impl Notices for MemoryStore {
    async fn spread_notices(&self, sinks: &[Name], limit: usize, now: Timestamp) -> StoreResult<usize> {
        let mut tables = self.lock_tables();
        let (mut new, mut rest): (Vec<NoticeRow>, Vec<NoticeRow>) =
            tables.notices.drain(..).partition(|row| row.sink.is_none());
        new.sort_by_key(|row| row.position);
        rest.extend(new.split_off(limit.min(new.len())));
        for row in &new {
            let copies =
                sinks.iter().map(|sink| NoticeRow { sink: Some(sink.clone()), due_at: now, ..row.clone() });
            rest.extend(copies);
        }
        tables.notices = rest;
        Ok(new.len())
    }

    async fn due_notices(&self, sink: &Name, limit: usize, now: Timestamp) -> StoreResult<Vec<DueNotice>> {
        let tables = self.lock_tables();
        let is_first = |row: &NoticeRow| {
            !tables.notices.iter().any(|other| other.position < row.position && other.is_about_the_same(row))
        };
        let mut due: Vec<&NoticeRow> = tables
            .notices
            .iter()
            .filter(|row| row.sink.as_ref() == Some(sink) && row.due_at <= now && is_first(row))
            .collect();
        due.sort_by_key(|row| (row.due_at, row.position));
        let due = due.into_iter().take(limit).map(|row| DueNotice {
            position: row.position,
            tenant: row.tenant.clone(),
            notice: row.notice.clone(),
            attempts: row.attempts,
        });
        Ok(due.collect())
    }

    async fn delete_delivered_notices(&self, sink: &Name, positions: &[i64]) -> StoreResult<()> {
        let told = |row: &NoticeRow| row.sink.as_ref() == Some(sink) && positions.contains(&row.position);
        self.lock_tables().notices.retain(|row| !told(row));
        Ok(())
    }

    async fn postpone_notices(&self, sink: &Name, notices: &[NoticeBackoff]) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for row in tables.notices.iter_mut().filter(|row| row.sink.as_ref() == Some(sink)) {
            if let Some(put_off) = notices.iter().find(|one| one.position == row.position) {
                (row.due_at, row.attempts) = (put_off.until, put_off.attempts);
            }
        }
        Ok(())
    }

    async fn notice_backlogs(&self) -> StoreResult<Vec<NoticeBacklog>> {
        let mut backlogs: BTreeMap<Name, NoticeBacklog> = BTreeMap::new();
        for row in &self.lock_tables().notices {
            let Some(sink) = &row.sink else { continue };
            let backlog = backlogs.entry(sink.clone()).or_insert_with(|| NoticeBacklog {
                sink: sink.clone(),
                notices: 0,
                oldest: row.notice.at,
            });
            backlog.notices += 1;
            backlog.oldest = backlog.oldest.min(row.notice.at);
        }
        Ok(backlogs.into_values().collect())
    }

    async fn purge_notices(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        let mut tables = self.lock_tables();
        let mut gone = 0;
        tables.notices.retain(|row| {
            let goes = row.notice.at < before && gone < limit;
            gone += usize::from(goes);
            !goes
        });
        Ok(gone as u64)
    }
}

//! Notices: outbound events about runs and items, and which sink has not received them.

use millstream_model::id::{Name, TenantId};
use millstream_model::notice::{Notice, NoticeKind};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::notices::{DueNotice, NoticeBacklog, NoticeBackoff, Notices};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param;

#[async_trait::async_trait]
impl Notices for SqliteStore {
    async fn spread_notices(&self, sinks: &[Name], limit: usize, now: Timestamp) -> StoreResult<usize> {
        // A reader looks first: most of the time there are none, and then no caller waits for the writer.
        if self.read_transaction(move |connection| unspread_positions(connection, 1)).await?.is_empty() {
            return Ok(0);
        }
        let sinks = sinks.to_vec();
        self.write_transaction(move |connection| spread_new(connection, &sinks, limit, now)).await
    }

    async fn due_notices(&self, sink: &Name, limit: usize, now: Timestamp) -> StoreResult<Vec<DueNotice>> {
        const DUE: &str = "
            SELECT * FROM notices AS n INDEXED BY notices_due
            WHERE n.sink = ?1 AND n.due_at <= ?2 AND NOT EXISTS (
                SELECT 1 FROM notices AS e
                WHERE e.sink = n.sink AND e.subject = n.subject AND e.tenant = n.tenant AND e.family = n.family
                  AND e.position < n.position)
            ORDER BY n.due_at, n.position LIMIT ?3";
        let sink = sink.clone();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(DUE)?;
            let mut rows = read.query((sink.as_str(), now.as_millis(), param::limit(limit)))?;
            let mut due = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                let notice = Notice {
                    kind: row.word("kind", NoticeKind::parse)?,
                    subject: row.text("subject")?.to_owned(),
                    at: row.time("at")?,
                    data: row.raw("body")?,
                };
                due.push(DueNotice {
                    position: row.int("position")?,
                    tenant: row.id("tenant")?,
                    notice,
                    attempts: row.number("attempts")?,
                });
            }
            Ok(due)
        })
        .await
    }

    async fn delete_delivered_notices(&self, sink: &Name, positions: &[i64]) -> StoreResult<()> {
        const TOLD: &str = "DELETE FROM notices WHERE sink = ?1 AND position = ?2";
        if positions.is_empty() {
            return Ok(());
        }
        let (sink, positions) = (sink.clone(), positions.to_vec());
        self.write_transaction(move |connection| {
            let mut told = connection.prepare_cached(TOLD)?;
            for position in &positions {
                told.execute((sink.as_str(), position))?;
            }
            Ok(())
        })
        .await
    }

    async fn postpone_notices(&self, sink: &Name, notices: &[NoticeBackoff]) -> StoreResult<()> {
        const PUT_OFF: &str =
            "UPDATE notices SET due_at = ?3, attempts = ?4 WHERE sink = ?1 AND position = ?2";
        if notices.is_empty() {
            return Ok(());
        }
        let (sink, notices) = (sink.clone(), notices.to_vec());
        self.write_transaction(move |connection| {
            let mut put_off = connection.prepare_cached(PUT_OFF)?;
            for NoticeBackoff { position, until, attempts } in &notices {
                put_off.execute((sink.as_str(), position, until.as_millis(), attempts))?;
            }
            Ok(())
        })
        .await
    }

    async fn notice_backlogs(&self) -> StoreResult<Vec<NoticeBacklog>> {
        const BACKLOGS: &str = "
            SELECT sink, count(*) AS notices, min(at) AS oldest
            FROM notices WHERE sink > '' GROUP BY sink ORDER BY sink";
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(BACKLOGS)?;
            let (mut rows, mut backlogs) = (read.query([])?, Vec::new());
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                backlogs.push(NoticeBacklog {
                    sink: row.id("sink")?,
                    notices: row.count("notices")?,
                    oldest: row.time("oldest")?,
                });
            }
            Ok(backlogs)
        })
        .await
    }

    async fn purge_notices(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        const PURGE: &str = "
            DELETE FROM notices WHERE rowid IN (
                SELECT rowid FROM notices INDEXED BY notices_at WHERE at < ?1 ORDER BY at LIMIT ?2)";
        self.write_transaction(move |connection| {
            let gone =
                connection.prepare_cached(PURGE)?.execute((before.as_millis(), param::limit(limit)))?;
            Ok(gone as u64)
        })
        .await
    }
}

/// Written with the change that it describes.
pub(crate) fn write(connection: &Connection, notices: &[(&TenantId, Notice)]) -> SqliteResult<()> {
    const NEXT: &str = "UPDATE notice_positions SET last = last + 1 RETURNING last";
    const WRITE: &str = "
        INSERT INTO notices (position, sink, tenant, family, subject, kind, body, at, due_at, attempts)
        VALUES (?1, '', ?2, ?3, ?4, ?5, ?6, ?7, ?7, 0)";
    for (tenant, notice) in notices {
        let position: i64 = connection.prepare_cached(NEXT)?.query_row((), |row| row.get(0))?;
        connection.prepare_cached(WRITE)?.execute((
            position,
            tenant.as_str(),
            notice.kind.subject_kind().as_str(),
            &notice.subject,
            notice.kind.as_str(),
            notice.data.as_str(),
            notice.at.as_millis(),
        ))?;
    }
    Ok(())
}

/// The positions of notices that are not spread yet.
fn unspread_positions(connection: &Connection, limit: usize) -> SqliteResult<Vec<i64>> {
    const NEW: &str = "SELECT position FROM notices WHERE sink = '' ORDER BY position LIMIT ?1";
    let mut find = connection.prepare_cached(NEW)?;
    let found =
        find.query_map([param::limit(limit)], |row| row.get(0))?.collect::<std::result::Result<_, _>>()?;
    Ok(found)
}

fn spread_new(connection: &Connection, sinks: &[Name], limit: usize, now: Timestamp) -> SqliteResult<usize> {
    const COPY: &str = "
        INSERT INTO notices (position, sink, tenant, family, subject, kind, body, at, due_at, attempts)
        SELECT position, ?2, tenant, family, subject, kind, body, at, ?3, 0
        FROM notices WHERE sink = '' AND position = ?1";
    const REMOVE: &str = "DELETE FROM notices WHERE sink = '' AND position = ?1";
    let positions = unspread_positions(connection, limit)?;
    let mut copy = connection.prepare_cached(COPY)?;
    let mut remove = connection.prepare_cached(REMOVE)?;
    for position in &positions {
        for sink in sinks {
            copy.execute((position, sink.as_str(), now.as_millis()))?;
        }
        remove.execute([position])?;
    }
    Ok(positions.len())
}

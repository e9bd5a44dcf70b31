//! Notices: outbound events about runs and items, and which sink has not received them.

use async_trait::async_trait;
use millstream_model::id::{Name, TenantId};
use millstream_model::notice::Notice;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::notices::{DueNotice, NoticeBacklog, NoticeBackoff, Notices};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, PgPool, Row};

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;

#[async_trait]
impl Notices for PostgresStore {
    async fn spread_notices(&self, sinks: &[Name], limit: usize, now: Timestamp) -> StoreResult<usize> {
        self.with_retries(|| spread_new(&self.pool, sinks, limit, now)).await
    }

    async fn due_notices(&self, sink: &Name, limit: usize, now: Timestamp) -> StoreResult<Vec<DueNotice>> {
        const READ: &str = "
SELECT n.position, n.tenant, n.subject, n.kind, n.body, n.at, n.attempts FROM notices n
WHERE n.sink = $1 AND n.due_at <= $2 AND NOT EXISTS (
    SELECT 1 FROM notices e
    WHERE e.sink = n.sink AND e.subject = n.subject AND e.tenant = n.tenant AND e.family = n.family
      AND e.position < n.position)
ORDER BY n.due_at, n.position LIMIT $3";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(sink.as_str())
                .bind(now.as_millis())
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(decode_due).collect()
        })
        .await
    }

    async fn delete_delivered_notices(&self, sink: &Name, positions: &[i64]) -> StoreResult<()> {
        const TOLD: &str = "DELETE FROM notices WHERE sink = $1 AND position = ANY($2)";
        if positions.is_empty() {
            return Ok(());
        }
        self.with_retries(|| async {
            sqlx::query(TOLD).bind(sink.as_str()).bind(positions).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    async fn postpone_notices(&self, sink: &Name, notices: &[NoticeBackoff]) -> StoreResult<()> {
        const PUT_OFF: &str = "
UPDATE notices n SET due_at = k.until, attempts = k.attempts
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS k(position, until, attempts)
WHERE n.sink = $1 AND n.position = k.position";
        if notices.is_empty() {
            return Ok(());
        }
        self.with_retries(|| async {
            sqlx::query(PUT_OFF)
                .bind(sink.as_str())
                .bind(notices.iter().map(|one| one.position).collect::<Vec<_>>())
                .bind(notices.iter().map(|one| one.until.as_millis()).collect::<Vec<_>>())
                .bind(notices.iter().map(|one| i64::from(one.attempts)).collect::<Vec<_>>())
                .execute(&self.pool)
                .await?;
            Ok(())
        })
        .await
    }

    async fn notice_backlogs(&self) -> StoreResult<Vec<NoticeBacklog>> {
        const READ: &str = "
SELECT n.sink, count(*) AS notices, min(n.at) AS oldest
FROM notices n WHERE n.sink > '' GROUP BY n.sink ORDER BY n.sink";
        self.without_retries(async {
            let rows = sqlx::query(READ).fetch_all(&self.pool).await?;
            rows.iter().map(decode_backlog).collect()
        })
        .await
    }

    async fn purge_notices(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        const PURGE: &str = "
DELETE FROM notices n USING (
    SELECT o.sink, o.position FROM notices o WHERE o.at < $1 ORDER BY o.at LIMIT $2 FOR UPDATE SKIP LOCKED) g
WHERE n.sink = g.sink AND n.position = g.position";
        self.with_retries(|| async {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let gone = sqlx::query(PURGE).bind(before.as_millis()).bind(limit).execute(&self.pool).await?;
            Ok(gone.rows_affected())
        })
        .await
    }
}

/// Written with the change that they describe, in order. Their subjects are locked, so positions of one
/// subject become visible in order.
pub(crate) async fn write(
    connection: &mut PgConnection,
    notices: &[(&TenantId, Notice)],
) -> PostgresResult<()> {
    const WRITE: &str = "
INSERT INTO notices (sink, tenant, family, subject, kind, body, at, due_at, attempts)
SELECT '', k.tenant, k.family, k.subject, k.kind, k.body, k.at, k.at, 0
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[]) WITH ORDINALITY
    AS k(tenant, family, subject, kind, body, at, ord)
ORDER BY k.ord";
    if notices.is_empty() {
        return Ok(());
    }
    let each = || notices.iter().map(|(_, notice)| notice);
    sqlx::query(WRITE)
        .bind(notices.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>())
        .bind(each().map(|notice| notice.kind.subject_kind().as_str()).collect::<Vec<_>>())
        .bind(each().map(|notice| notice.subject.as_str()).collect::<Vec<_>>())
        .bind(each().map(|notice| notice.kind.as_str()).collect::<Vec<_>>())
        .bind(each().map(|notice| notice.data.as_str()).collect::<Vec<_>>())
        .bind(each().map(|notice| notice.at.as_millis()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}

/// Rows are locked in their order: of two concurrent spreads the second finds the rows of the first gone.
async fn spread_new(pool: &PgPool, sinks: &[Name], limit: usize, now: Timestamp) -> PostgresResult<usize> {
    const SPREAD: &str = "
WITH new AS MATERIALIZED (
    SELECT n.position FROM notices n WHERE n.sink = '' ORDER BY n.position LIMIT $1 FOR UPDATE
), taken AS (
    DELETE FROM notices n USING new WHERE n.sink = '' AND n.position = new.position RETURNING n.*
), copied AS (
    INSERT INTO notices (position, sink, tenant, family, subject, kind, body, at, due_at, attempts)
    SELECT t.position, s.sink, t.tenant, t.family, t.subject, t.kind, t.body, t.at, $3, 0
    FROM taken t CROSS JOIN unnest($2::text[]) AS s(sink)
)
SELECT count(*) AS spread FROM taken";
    let row = sqlx::query(SPREAD)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(sinks.iter().map(Name::as_str).collect::<Vec<_>>())
        .bind(now.as_millis())
        .fetch_one(pool)
        .await?;
    let spread: i64 = row.try_get("spread")?;
    Ok(usize::try_from(spread).unwrap_or_default())
}

fn decode_due(row: &PgRow) -> PostgresResult<DueNotice> {
    let notice = Notice {
        kind: decode::parsed(row, "kind")?,
        subject: row.try_get("subject")?,
        at: decode::time(row, "at")?,
        data: decode::json(row, "body")?,
    };
    Ok(DueNotice {
        position: row.try_get("position")?,
        tenant: decode::parsed(row, "tenant")?,
        notice,
        attempts: decode::number(row, "attempts")?,
    })
}

fn decode_backlog(row: &PgRow) -> PostgresResult<NoticeBacklog> {
    let notices: i64 = row.try_get("notices")?;
    Ok(NoticeBacklog {
        sink: decode::parsed(row, "sink")?,
        notices: u64::try_from(notices).unwrap_or_default(),
        oldest: decode::time(row, "oldest")?,
    })
}

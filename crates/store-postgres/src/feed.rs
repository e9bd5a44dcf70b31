//! Reading the feed, and what was published of it. It is written by those whose deeds it tells
//! ([`crate::graph_rows`]).

use async_trait::async_trait;
use millstream_core::id::ExecutionKey;
use millstream_store::Result;
use millstream_store::feed::{Fed, Feed, FeedEntry};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::Attempt;

#[async_trait]
impl Feed for PostgresStore {
    async fn feed(&self, execution: &ExecutionKey, after: i64, limit: usize) -> Result<Vec<FeedEntry>> {
        const READ: &str = "
SELECT f.* FROM graph_feed f
WHERE f.tenant = $1 AND f.execution_id = $2 AND f.position > $3
ORDER BY f.position LIMIT $4";
        self.once(async {
            let rows = sqlx::query(READ)
                .bind(execution.tenant.as_str())
                .bind(execution.execution.as_str())
                .bind(after)
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(entry).collect()
        })
        .await
    }

    async fn unpublished(&self, limit: usize) -> Result<Vec<FeedEntry>> {
        const READ: &str = "SELECT f.* FROM graph_feed f WHERE NOT f.published ORDER BY f.position LIMIT $1";
        self.once(async {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = sqlx::query(READ).bind(limit).fetch_all(&self.pool).await?;
            rows.iter().map(entry).collect()
        })
        .await
    }

    async fn published(&self, positions: &[i64]) -> Result<()> {
        // Locked in their order: two publishers that mark the same ones wait for each other and no more.
        const MARK: &str = "
WITH marked AS MATERIALIZED (
    SELECT f.ctid AS place
    FROM (SELECT u.position FROM unnest($1::bigint[]) AS u(position) ORDER BY 1) k
    CROSS JOIN LATERAL (
        SELECT f.ctid FROM graph_feed f WHERE f.position = k.position AND NOT f.published
        FOR NO KEY UPDATE) f
)
UPDATE graph_feed f SET published = TRUE FROM marked m WHERE f.ctid = m.place";
        if positions.is_empty() {
            return Ok(());
        }
        self.patiently(|| async {
            sqlx::query(MARK).bind(positions).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}

fn entry(row: &PgRow) -> Attempt<FeedEntry> {
    let what = match decode::json_option(row, "body")? {
        Some(body) => Fed::Dispatched(body),
        None => {
            Fed::Transitions { first: decode::seq(row, "first_seq")?, last: decode::seq(row, "last_seq")? }
        }
    };
    Ok(FeedEntry {
        position: row.try_get("position")?,
        execution: decode::execution_key(row)?,
        at: decode::time(row, "at")?,
        what,
    })
}

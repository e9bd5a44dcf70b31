//! Reads the feed; each commit writes its own entries ([`crate::graph_rows`]).

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
}

pub(crate) fn entry(row: &PgRow) -> Attempt<FeedEntry> {
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

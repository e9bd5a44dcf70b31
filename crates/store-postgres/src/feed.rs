//! Reads the feed; each commit writes its own entries ([`crate::graph_rows`]).

use async_trait::async_trait;
use millstream_model::id::ExecutionKey;
use millstream_store::StoreResult;
use millstream_store::feed::{Feed, FeedContent, FeedEntry};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;

#[async_trait]
impl Feed for PostgresStore {
    async fn read_feed(
        &self,
        execution: &ExecutionKey,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<FeedEntry>> {
        const READ: &str = "
SELECT f.* FROM graph_feed f
WHERE f.tenant = $1 AND f.execution_id = $2 AND f.position > $3
ORDER BY f.position LIMIT $4";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(execution.tenant.as_str())
                .bind(execution.execution.as_str())
                .bind(after)
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(decode_entry).collect()
        })
        .await
    }
}

pub(crate) fn decode_entry(row: &PgRow) -> PostgresResult<FeedEntry> {
    let what = match decode::json_option(row, "body")? {
        Some(body) => FeedContent::Dispatched(body),
        None => FeedContent::Transitions {
            first: decode::seq(row, "first_seq")?,
            last: decode::seq(row, "last_seq")?,
        },
    };
    Ok(FeedEntry {
        position: row.try_get("position")?,
        execution: decode::execution_key(row)?,
        at: decode::time(row, "at")?,
        what,
    })
}

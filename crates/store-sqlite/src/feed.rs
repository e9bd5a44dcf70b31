//! Reads the feed; each commit writes its own entries ([`crate::graph_rows`]).

use millstream_model::id::ExecutionKey;
use millstream_store::StoreResult;
use millstream_store::feed::{Feed, FeedContent, FeedEntry};
use rusqlite::Rows;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param;

#[async_trait::async_trait]
impl Feed for SqliteStore {
    async fn read_feed(
        &self,
        execution: &ExecutionKey,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<FeedEntry>> {
        const FEED: &str = "
            SELECT * FROM graph_feed
            WHERE tenant = ?1 AND execution_id = ?2 AND position > ?3
            ORDER BY position LIMIT ?4";
        let key = execution.clone();
        self.read_transaction(move |connection| {
            let wanted = (key.tenant.as_str(), key.execution.as_str(), after, param::limit(limit));
            decode_entries(connection.prepare_cached(FEED)?.query(wanted)?)
        })
        .await
    }
}

pub(crate) fn decode_entries(mut rows: Rows<'_>) -> SqliteResult<Vec<FeedEntry>> {
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let row = SqliteFields(row);
        let what = match row.opt_raw("body")? {
            Some(body) => FeedContent::Dispatched(body),
            None => FeedContent::Transitions { first: row.seq("first_seq")?, last: row.seq("last_seq")? },
        };
        let (position, execution, at) = (row.int("position")?, row.execution()?, row.time("at")?);
        entries.push(FeedEntry { position, execution, at, what });
    }
    Ok(entries)
}

//! Reads the feed; each commit writes its own entries ([`crate::graph_rows`]).

use millstream_core::id::ExecutionKey;
use millstream_store::Result;
use millstream_store::feed::{Fed, Feed, FeedEntry};
use rusqlite::Rows;

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::Attempt;
use crate::param;

#[async_trait::async_trait]
impl Feed for SqliteStore {
    async fn feed(&self, execution: &ExecutionKey, after: i64, limit: usize) -> Result<Vec<FeedEntry>> {
        const FEED: &str = "
            SELECT * FROM graph_feed
            WHERE tenant = ?1 AND execution_id = ?2 AND position > ?3
            ORDER BY position LIMIT ?4";
        let key = execution.clone();
        self.read(move |connection| {
            let wanted = (key.tenant.as_str(), key.execution.as_str(), after, param::limit(limit));
            entries(connection.prepare_cached(FEED)?.query(wanted)?)
        })
        .await
    }
}

pub(crate) fn entries(mut rows: Rows<'_>) -> Attempt<Vec<FeedEntry>> {
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let row = Fields(row);
        let what = match row.opt_raw("body")? {
            Some(body) => Fed::Dispatched(body),
            None => Fed::Transitions { first: row.seq("first_seq")?, last: row.seq("last_seq")? },
        };
        let (position, execution, at) = (row.int("position")?, row.execution()?, row.time("at")?);
        entries.push(FeedEntry { position, execution, at, what });
    }
    Ok(entries)
}

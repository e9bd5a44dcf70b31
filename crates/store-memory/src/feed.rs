//! Reads the feed, in memory; each commit writes its own entries ([`crate::graphs`]).

use millstream_model::id::ExecutionKey;
use millstream_store::StoreResult;
use millstream_store::feed::{Feed, FeedEntry};

use crate::MemoryStore;

#[async_trait::async_trait]
impl Feed for MemoryStore {
    async fn read_feed(
        &self,
        execution: &ExecutionKey,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<FeedEntry>> {
        let tables = self.lock_tables();
        let entries = tables.feed.iter().map(|row| &row.entry);
        let wanted = entries.filter(|entry| entry.execution == *execution && entry.position > after);
        Ok(wanted.take(limit).cloned().collect())
    }
}

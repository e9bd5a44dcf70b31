//! The feed, in memory: reads, and the entries that commits and dispatches append.

use millstream_model::id::{ExecutionKey, Seq};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::feed::{Feed, FeedContent, FeedEntry};

use crate::MemoryStore;
use crate::graphs::FeedRow;
use crate::tables::MemoryTables;

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

impl MemoryTables {
    /// The transitions of a commit, both included.
    pub(crate) fn feed_transitions(&mut self, key: &ExecutionKey, first: Seq, last: Seq, now: Timestamp) {
        self.append_feed_entry(key, FeedContent::Transitions { first, last }, now);
    }

    pub(crate) fn append_feed_entry(&mut self, key: &ExecutionKey, what: FeedContent, now: Timestamp) {
        self.last_position += 1;
        let entry = FeedEntry { position: self.last_position, execution: key.clone(), at: now, what };
        self.feed.push(FeedRow { entry, published: false });
    }
}

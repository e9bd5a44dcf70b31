//! Reads the feed, in memory; each commit writes its own entries ([`super::graphs`]).

use millstream_core::id::ExecutionKey;

use super::Memory;
use crate::Result;
use crate::feed::{Feed, FeedEntry};

#[async_trait::async_trait]
impl Feed for Memory {
    async fn feed(&self, execution: &ExecutionKey, after: i64, limit: usize) -> Result<Vec<FeedEntry>> {
        let tables = self.tables();
        let entries = tables.feed.iter().map(|row| &row.entry);
        let wanted = entries.filter(|entry| entry.execution == *execution && entry.position > after);
        Ok(wanted.take(limit).cloned().collect())
    }
}

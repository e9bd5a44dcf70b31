//! Outbound events through a Redis stream that external consumers read.
//!
//! The only place where payloads enter Redis. The engine never reads them and depends on none: they are
//! copies of rows in the database.

use crate::StreamResult;

#[async_trait::async_trait]
pub trait OutboundStream: Send + Sync {
    /// Appends entries to the stream with this name, in order, all of them or none; about `keep` of the
    /// newest stay. After an error they may nevertheless have been appended.
    async fn append_entries(&self, stream: &str, entries: &[OutboundEntry], keep: usize) -> StreamResult<()>;
}

/// Fields and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundEntry(pub Vec<(&'static str, String)>);

//! The rows of outbound events, in memory: what waits for each sink.

use millstream_model::id::{Name, TenantId};
use millstream_model::notice::Notice;
use millstream_model::time::Timestamp;
use millstream_store::outbox::SinkPosition;

/// A notice, before or after it is copied for each sink.
#[derive(Debug, Clone)]
pub(crate) struct NoticeRow {
    pub(crate) position: i64,
    /// `None` before it is spread.
    pub(crate) sink: Option<Name>,
    pub(crate) tenant: TenantId,
    pub(crate) notice: Notice,
    pub(crate) due_at: Timestamp,
    pub(crate) attempts: u32,
}

/// A sink's progress with an execution.
#[derive(Debug)]
pub(crate) struct OutboxRow {
    pub(crate) heard: SinkPosition,
    pub(crate) upto: i64,
    pub(crate) waiting: u64,
    pub(crate) since: Timestamp,
    pub(crate) due_at: Timestamp,
    pub(crate) attempts: u32,
}

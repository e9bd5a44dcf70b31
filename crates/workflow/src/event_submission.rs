//! An event on its way to the log of its execution, before it is accepted.

use millstream_model::id::{EventId, ExecutionKey, Name};
use millstream_model::raw::RawJson;

use crate::log::EventOrigin;

/// An event to accept.
#[derive(Debug, Clone)]
pub struct EventSubmission {
    pub event_id: EventId,
    pub execution: ExecutionKey,
    pub name: Name,
    pub payload: RawJson,
    pub origin: EventOrigin,
    pub idempotency: Option<IdempotencyKey>,
    /// The sender: the name of the key, `timer`, or `action:NAME`.
    pub actor: Option<String>,
    pub traceparent: Option<String>,
}

/// A client's idempotency key with the hash of the request content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub key: String,
    pub request_hash: [u8; 32],
}

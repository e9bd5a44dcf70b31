//! Doorbells, locks and announcements: the part of an execution's state that may be lost.
//!
//! The database is the source of truth; a stream entry is a doorbell that carries ids only. Redis may be
//! flushed, lost or restarted empty at any moment: latency suffers, no data is lost. There are two backends
//! with the same semantics, `redis` for a fleet and `embedded` for one process, and one conformance suite for
//! both: `millstream-stream-conformance`.
//!
//! Refuses: payloads (except copies that leave by [`outbound`]), and any durability guarantee.

pub mod announcement;
pub mod doorbell;
pub mod error;
pub mod locks;
pub mod outbound;
pub mod streams;

pub mod embedded;
pub mod redis;

pub use self::embedded::EmbeddedStream;
pub use self::redis::{RedisOptions, RedisStream, RedisTls};
pub use error::StreamError;
pub use streams::StreamHandles;

/// The result of every method of this crate.
pub type StreamResult<T> = std::result::Result<T, StreamError>;

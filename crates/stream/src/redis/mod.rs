//! The backend for a fleet: Redis 7.0 or later (or Valkey), one server or a failover pair.
//!
//! ```text
//! {prefix}:{lN}:bells              stream of lane N, one consumer group, entries of three short fields
//! {prefix}:{lN}:deep, :overs, :over:TENANT, :windowed    windows and overflow of tenants (`windows.rs`)
//! {prefix}:{lN}:lock:TENANT/ID     lock of an execution, SET NX PX, value = token
//! {prefix}:generation              random, no expiry: gone when the server lost its memory
//! {prefix}:news                    pub/sub channel
//! ```
//!
//! Rules that hold everywhere below:
//! - The server may be empty at any moment. A process that finds a group missing creates it *and* changes the
//!   generation, so that every process sweeps.
//! - A shared command ends within a few seconds, whatever the network does. Only a reader blocks, on a
//!   connection of its own.
//! - A lost answer may have handed entries to this process: the reader looks them up, all others come back
//!   through reclaim.
//!
//! Refuses: payloads (except outbound copies), Redis Cluster as long as one reader takes several lanes in one
//! command (keys already carry the lane as hash tag), and servers that evict.

mod acknowledge;
mod announce;
mod announcement_lines;
mod connection;
mod doorbells;
mod error_kind;
#[doc(hidden)]
pub mod fuzzing;
mod groups;
mod keys;
mod locks;
mod maintenance;
mod options;
mod outbound;
mod reader;
mod reclaim;
mod remove_consumers;
mod reply;
mod script;
mod server_check;
mod stream;
mod stream_entry;
mod subscriber;
mod windows;

pub use options::{RedisOptions, RedisTls};
pub use stream::RedisStream;

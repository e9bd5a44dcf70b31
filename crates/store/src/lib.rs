//! The persistence contract of Millstream: durability, repeats and order.
//!
//! The database is the truth; everything else may be lost. Small traits by use case, batch-first: a hot-path
//! method takes a slice, is one transaction, and returns one verdict per item in the order given. A write is
//! one value with its precondition inside; no transaction handle crosses a trait. `now` is a parameter
//! everywhere; PostgreSQL judges leases and due times by its own clock.
//!
//! Refuses: SQL, and decisions of the domain (those are made in the pure crates).
//!
//! Reading order follows an event: [`event_log`] (made durable, as [`acceptance`] judges), [`execution_store`] (decided),
//! [`action_store`] and [`task_board`] (performed), [`timer_store`], [`relations`], [`graph_store`],
//! [`executor_store`], [`feed`], work for devices ([`run_store`], [`device_store`], [`run_service`]) and for
//! people ([`queue_store`], [`item_store`], [`assignments`], [`item_service`]), outbound events ([`outbox`],
//! [`notices`]), then operations ([`intervention`], [`incidents`], [`views`], [`backlog_gauges`], …). The reference
//! implementation is `millstream-store-memory`; `millstream-store-conformance` is the suite that every backend must pass.

pub mod acceptance;
pub mod action_store;
pub mod assignments;
pub mod backlog_gauges;
pub mod clock;
pub mod definition_store;
pub mod device_store;
pub mod error;
pub mod event_log;
pub mod execution_store;
pub mod executor_store;
pub mod feed;
pub mod graph_store;
pub mod housekeeping;
pub mod incidents;
pub mod intervention;
pub mod item_service;
pub mod item_store;
pub mod key_secret;
pub mod key_store;
pub mod lease_grant;
pub mod log_cap;
pub mod node_request;
pub mod notices;
pub mod opening_selection;
pub mod outbox;
pub mod paging;
pub mod queue_store;
pub mod quota_cache;
pub mod quota_store;
pub mod relations;
pub mod reopening;
pub mod run_commit;
pub mod run_seats;
pub mod run_service;
pub mod run_store;
pub mod schema;
pub mod settling;
pub mod status_words;
pub mod stores;
pub mod task_board;
pub mod timer_store;
pub mod views;
pub mod worker_store;

pub use error::StoreError;
pub use stores::Stores;

/// The result of every method of this crate.
pub type StoreResult<T> = std::result::Result<T, StoreError>;

//! The reference implementation: the contract in plain maps, for tests and simulations.
//!
//! One mutex over everything, never held across an await, so every call is one transaction. Written to be
//! read beside the SQL: when a backend and this disagree, the doc comments of the traits decide.
//!
//! Refuses: durability, and speed beyond what tests need (leasing looks at every action).

mod action_store;
mod assignment_views;
mod assignments;
mod commit;
mod definition_store;
mod device_store;
mod event_log;
mod event_views;
mod execution_store;
mod execution_views;
mod executor_store;
mod feed;
mod graph_store;
mod graph_views;
mod graphs;
mod handle;
mod housekeeping;
mod incidents;
mod intervention;
mod item_store;
mod key_store;
mod leasing;
mod notices;
mod outbound_rows;
mod outbox;
mod people;
mod queue_store;
mod quota_store;
mod relations;
mod run_store;
mod run_views;
mod settle;
mod tables;
mod task_board;
mod timer_store;
mod worker_store;

pub use handle::MemoryStore;

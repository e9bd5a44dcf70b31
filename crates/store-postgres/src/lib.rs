//! The persistence contract of Millstream on PostgreSQL.
//!
//! Every method is one transaction of few multi-row statements (`unnest` of arrays, never a statement per
//! row); append, load, commit and settlement are one statement each in almost every case, and so are changes
//! of people's items and new runs of devices. Locks are always taken in one order: runs and their seats,
//! people who ask, items, correlations, idempotency keys, executions, events, actions, timers, graphs,
//! totals; each kind sorted by its key, by a statement (or a part of one) of its own before rows are changed
//! in bulk. Every change of a mailbox or an incident holds its execution's row. Leases and due times are
//! judged by the clock of the database.
//!
//! Plans must not depend on statistics, which are always from before the last burst. Hash joins, merge joins,
//! bitmaps and sequential scans are off for the store's sessions. Lookups by key in the hot statements are
//! `LATERAL … OFFSET 0`, secondary indexes have the tenant as an expression, and rows are changed at the
//! `ctid` where they were found: otherwise a plan made while a table was small is kept and reads all of the
//! large one. Conditions on the status of actions are written (`NOT IN (…)`, `CASE`) so that they imply no
//! partial index.
//!
//! Refuses: decisions of the domain, and transactions that outlive a call.
//!
//! Mirrors `millstream-store-sqlite` file for file. Reading order follows an event.

mod connect;
mod connection_cache;
mod decode;
mod encryption;
mod errors;
mod migrate;
mod server_check;
mod session;
mod statement_inputs;

mod accept_plan;
mod doorbells;
mod event_log;
mod event_rows;
mod signals;

mod commit;
mod commit_leases;
mod commit_plain;
mod commit_rows;
mod commit_tables;
mod execution_store;
mod graph_rows;
mod loading;
mod new_actions;
mod node_columns;

mod action_groups;
mod action_rows;
mod action_store;
mod leasing;
mod settle;
mod settle_plain;
mod settle_plan;
mod task_board;
mod timer_store;

mod dispatch_context;
mod executor_store;
mod feed;
mod graph_logs;
mod graph_store;
mod graph_views;

mod device_store;
mod run_rows;
mod run_store;
mod run_views;
mod run_write;

mod assignment_views;
mod assignments;
mod caller_batch;
mod caller_facts;
mod item_rows;
mod item_store;
mod item_write;
mod opening_search;
mod queue_configs;
mod queue_store;
mod quota_store;
mod skill_sets;
mod totals;

mod definition_store;
mod event_views;
mod execution_views;
mod housekeeping;
mod incident_decisions;
mod incident_rows;
mod incidents;
mod intervention;
mod key_store;
mod notices;
mod outbox;
mod relations;
mod worker_store;

pub use connect::{PostgresOptions, PostgresStore};
pub use encryption::{PostgresEncryption, encryption_of};
pub use server_check::ServerCheck;

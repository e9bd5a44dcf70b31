//! The persistence contract of Millstream on SQLite: one file, one process, one writer.
//!
//! Writes queue for the only writing connection ([`writer`]), which runs them in one `BEGIN IMMEDIATE`
//! transaction after the other, so there are no concurrent writers, and no statement takes row locks. Inside
//! the transaction rows are read, verdicts follow from them, and the changes are written at once, row by row:
//! SQLite is a library in this process, and a prepared statement is a function call. Reads that write nothing
//! go to a few read-only connections ([`readers`]), which in WAL mode never wait for the writer.
//!
//! The process must hold an OS lock on the directory of the file before it opens it; the program takes it,
//! because only the program can report the conflict to the user.
//!
//! Refuses: decisions of the domain, the clock of the host (except for [`Housekeeping::ping`]), sharing the
//! file with another process.
//!
//! [`Housekeeping::ping`]: millstream_store::housekeeping::Housekeeping::ping

mod connect;
mod decode;
mod errors;
mod migrate;
mod param;
mod readers;
mod writer;

mod accept;
mod append;
mod doorbells;
mod event_log;
mod notices;
mod outbox;
mod relations;
mod signals;

mod commit;
mod commit_actions;
mod commit_rows;
mod execution_store;
mod graph_rows;
mod mailbox;
mod rendered_commit;

mod action_store;
mod leased_actions;
mod leasing;
mod settle;
mod settle_rows;
mod task_board;
mod timer_store;

mod executor_store;
mod feed;
mod graph_store;
mod graph_views;

mod device_store;
mod run_rows;
mod run_store;
mod run_views;

mod assignment_views;
mod assignments;
mod item_rows;
mod item_store;
mod queue_store;
mod quota_store;

mod definition_store;
mod event_views;
mod execution_views;
mod housekeeping;
mod incident_decisions;
mod incident_rows;
mod incidents;
mod intervention;
mod key_store;
mod worker_store;

pub use connect::{SqliteOptions, SqliteStore, sqlite_version};

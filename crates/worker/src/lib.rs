//! The worker: consumes doorbells, decides, commits, acknowledges, performs, settles, and repairs.
//!
//! Follow one event: [`reader`] (a doorbell is read) → [`consume`] and [`inbox`] (held, grouped by
//! execution) → [`process`] (lock, [`load`], `workflow` decides, [`commit_builder`] turns that into rows,
//! [`commit`], [`post_commit`], ack) → [`perform`] (each action under its lease) → [`settle`] (its outcome
//! becomes the next event). Each crash between two of these steps is repaired by one file:
//! [`reclaim`], [`poison`] and those in [`duties`]. [`run_worker()`] starts it all and [`drain`] ends it.
//!
//! The store is the authority. A worker may die at any point, run twice, or act for a while on a lock that it
//! has lost; the fences in the store make that harmless.
//!
//! Refuses: knowing the ingress, naming a backend, reading the environment, and holding a transaction open
//! during a call to another service.

mod alarm;
mod bisect;
mod commit;
mod commit_builder;
mod consume;
mod context;
mod crash_point;
mod decide;
mod deps;
mod device_runs;
mod drain;
mod due_tenants;
mod duties;
mod error;
pub mod executors;
mod graph_log;
mod inbox;
mod lease_renewal;
mod load;
mod metrics;
mod options;
mod outage;
pub mod outbound;
mod people_items;
mod perform;
mod poison;
mod post_commit;
mod process;
mod program_cache;
mod quota_rows;
mod quotas;
mod reader;
mod ready_nodes;
mod reclaim;
mod recovery;
pub mod replay;
mod run;
mod settle;
mod settle_queue;
mod state_cache;
mod tenant_shares;

pub use deps::WorkerDeps;
pub use error::WorkerFailure;
pub use options::{HttpOptions, RetentionPeriods, WorkerOptions};
pub use perform::{
    ActionCall, AttemptBeat, AttemptCredentials, AttemptPulse, HttpRequest, PerformCalls, PerformHttp,
    PerformNodes, SecretSource,
};
pub use recovery::release_duties_of_dead_workers;
pub use run::run_worker;

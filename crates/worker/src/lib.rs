//! The worker: consumes doorbells, decides, commits, acknowledges, performs, settles, and repairs.
//!
//! Follow one event: [`reading`] (a doorbell is read) → [`consume`] and [`kept`] (held, grouped by
//! execution) → [`process`] (lock, [`load`], `core` decides, [`turn`] turns that into rows,
//! [`commit`], [`aftermath`], ack) → [`perform`] (each action under its lease) → [`settle`] (its outcome
//! becomes the next event). Each crash between two of these steps is repaired by one file:
//! [`reclaim`], [`poison`] and those in [`duties`]. [`run()`] starts it all and [`drain`] ends it.
//!
//! The store is the authority. A worker may die at any point, run twice, or act for a while on a lock that it
//! has lost; the fences in the store make that harmless.
//!
//! Refuses: knowing the ingress, naming a backend, reading the environment, and holding a transaction open
//! during a call to another service.

mod aftermath;
mod alarm;
mod bisect;
mod commit;
mod consume;
mod crash;
mod decide;
mod deps;
mod device_runs;
mod drain;
mod due_tenants;
mod duties;
mod error;
pub mod executors;
mod graph_log;
mod kept;
mod load;
mod metrics;
mod options;
mod outage;
pub mod outbound;
mod people_items;
mod perform;
mod poison;
mod process;
mod programs;
mod quota_rows;
mod quotas;
mod reading;
mod ready_nodes;
mod reclaim;
mod renew;
pub mod replay;
mod run;
mod settle;
mod settle_queue;
mod shares;
mod states;
mod succession;
mod turn;
mod worker;

pub use deps::Deps;
pub use error::WorkerError;
pub use options::{HttpOptions, Retention, WorkerOptions};
pub use perform::{
    Beat, Call, Credentials, HttpRequest, PerformCalls, PerformHttp, PerformNodes, Pulse, Secrets,
};
pub use run::run;
pub use succession::succeed_the_dead;

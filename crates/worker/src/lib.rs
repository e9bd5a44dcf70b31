//! The worker: consumes doorbells, decides, commits, acknowledges, performs, settles, and repairs.
//!
//! Follow one event through [`pipeline`]: a doorbell is read, held and grouped by execution; a visit locks and
//! loads the execution, lets `workflow` decide, commits, publishes and acknowledges. [`leasing`] reserves slots for the
//! actions of the commit and hands them over; [`perform`] makes one attempt at each, under its lease; [`settle`]
//! records its outcome, which becomes the next event. Each crash between two of these steps is repaired by one
//! file: in [`pipeline`] or in [`duties`]. [`run_worker()`] starts it all and [`drain`] ends it.
//!
//! The modules are layers: each uses only those above it in this list. Deciding and performing do not know each
//! other; both know [`leasing`].
//!
//! The store is the authority. A worker may die at any point, run twice, or act for a while on a lock that it
//! has lost; the fences in the store make that harmless.
//!
//! Refuses: knowing the ingress, naming a backend, reading the environment, and holding a transaction open
//! during a call to another service.

mod action_log;
mod alarm;
mod bisect;
mod crash_point;
mod error;
pub mod executors;
mod metrics;
mod options;
mod outage;
mod panic_text;
mod program_cache;
mod quota_rows;
mod quotas;
pub mod replay;
mod settle_queue;
mod stream_loss;

mod environment;
mod notifications;

mod leasing;

mod pipeline;

mod perform;
mod settle;

pub mod outbound;

mod duties;

mod deps;

mod assembly;
mod drain;
mod run;

pub use deps::WorkerDeps;
pub use duties::release_duties_of_dead_workers;
pub use error::WorkerFailure;
pub use leasing::pulse::{AttemptBeat, AttemptPulse};
pub use options::{HttpOptions, RetentionPeriods, WorkerOptions};
pub use perform::{
    ActionCall, AttemptCredentials, HttpRequest, PerformCalls, PerformHttp, PerformNodes, SecretSource,
};
pub use run::run_worker;

//! `millstream bench`: load, measurements, floors and reports.
//!
//! It measures the engine from outside, over HTTP, as its users meet it; what it needs to know beyond
//! that (counts, sizes, CPU time) it asks the services for. It refuses to report a run in which an
//! event was lost, and to touch data that is not its own: every run that starts an engine has a
//! private database and private keys.
//!
//! Reading order: [`plan`] (what to measure), [`workload`], `request` and `generator` (the load),
//! `graph` (graphs, and who performs them), `people`, `line` and `devices` (work that somebody is given), `fairness` (two tenants), `target` (the
//! engine under test), `phase` (what is done to it), `quiet` (when it is done), `verify`
//! (that nothing is missing), `floor` (the limit), `run` (all of it in order), [`report`], [`table`].

pub mod calls;
pub mod cost;
pub mod devices;
pub mod error;
pub mod fairness;
pub mod graph;
pub mod line;
pub mod people;
pub mod plan;
pub mod progress;
pub mod rate;
pub mod workload;

mod request;
mod wire;

mod crew;
mod generator;
mod latency;
mod lists;
mod setup;
mod sink;

mod batches;
mod exposition;
mod postgres;
mod process;
mod redis_server;
mod sqlite;
mod target;
mod usage;
mod world;

mod floor;
mod phase;
mod quiet;
mod run;
mod verify;

pub mod plot;
pub mod report;
pub mod table;

pub use crew::Complete;
pub use devices::Devices;
pub use error::{BenchError, Result};
pub use fairness::Fairness;
pub use graph::{GraphShape, Graphs};
pub use line::Line;
pub use people::People;
pub use plan::{Amount, Measure, Plan, Size, Target};
pub use progress::Progress;
pub use rate::Rate;
pub use report::Report;
pub use request::Submit;
pub use run::run;
pub use workload::Workload;

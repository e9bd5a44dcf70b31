//! What `millstream bench` measures: load, measurements, floors and reports. The command line is in `main.rs`.
//!
//! It measures the engine from outside, over HTTP, as its users see it; counts, sizes and CPU time come from
//! the services. It refuses to report a run in which an event was lost, and to touch data that is not its
//! own: every run that starts an engine has a private database and private keys.
//!
//! Reading order: [`plan`] (what to measure), [`workload`], `request` and `generator` (the load), `graph`
//! (graphs, and the executor of their nodes), `people`, `line` and `devices` (items and runs that are
//! assigned), `fairness` (two tenants), `target` (the engine under test), `phase` (the steps of each
//! measurement), `completion` (recognising the end), `verify` (checking that nothing is missing), [`expressions`]
//! (cost of one step), `floor` (the limit), `run` (all of it in order), [`report`], [`table`].

pub mod calls;
pub mod cost;
pub mod devices;
pub mod error;
pub mod expressions;
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

mod external_workers;
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

mod completion;
mod floor;
mod phase;
mod run;
mod verify;

pub mod plot;
pub mod report;
pub mod table;

pub use devices::DeviceBench;
pub use error::{BenchError, BenchResult};
pub use external_workers::TaskCompletion;
pub use fairness::FairnessBench;
pub use graph::{GraphBench, GraphShape};
pub use line::LineBench;
pub use people::PeopleBench;
pub use plan::{BenchMeasure, BenchPlan, BenchSize, BenchTarget, LoadAmount};
pub use progress::BenchProgress;
pub use rate::LoadRate;
pub use report::BenchReport;
pub use request::SubmitMode;
pub use run::run;
pub use workload::Workload;

//! The routes, one file per thing that is asked about.

mod assignments;
mod batch;
mod definitions;
pub(crate) mod devices;
mod events;
mod executions;
mod executors;
mod graphs;
mod group_resolutions;
pub(crate) mod health;
mod history;
mod incidents;
mod interventions;
mod items;
mod keys;
mod past;
mod people;
pub(crate) mod posting;
pub mod problem;
mod queues;
mod quotas;
mod resolutions;
pub(crate) mod route;
mod router;
pub(crate) mod runs;
mod signals;
mod start;
mod strict;
mod tail;
pub(crate) mod task_outcomes;
pub(crate) mod tasks;
mod views;
mod workers;

pub use router::router;
pub(crate) use router::{all_routes, serve_routes};

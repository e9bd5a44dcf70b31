//! People benchmark: a queue of items, and people who request, start and submit until no item is left.
//!
//! `phase::people` drives it.

mod crowd;
mod outcome;
mod plan;
mod queue;
mod report;
mod table;

pub use plan::PeopleBench;
pub use report::{PeopleReport, PeopleRun};

pub(crate) use crowd::{PeopleWork, run_people};
pub(crate) use outcome::verify_queue;
pub(crate) use queue::BenchQueue;
pub(crate) use table::people_tables;

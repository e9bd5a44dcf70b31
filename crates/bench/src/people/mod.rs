//! People benchmark: a queue of items, and people who request, start and submit until no item is left.
//!
//! `phase::people` drives it.

mod crowd;
mod outcome;
mod plan;
mod queue;
mod report;
mod table;

pub use plan::People;
pub use report::{PeopleReport, PeopleRun};

pub(crate) use crowd::{Worked, work};
pub(crate) use outcome::all_done;
pub(crate) use queue::Queue;
pub(crate) use table::tables;

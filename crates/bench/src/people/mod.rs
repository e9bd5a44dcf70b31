//! People's work on the bench: a queue of items, and people who ask, begin and hand in until nothing is left.
//!
//! Who runs it is `phase::people`.

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

//! What must hold of a history, whatever happened: one file per kind of promise, all of it pure.

mod accepted;
mod acted;
mod graphs;
mod ordered;
mod quiet;
mod related;
mod timed;
mod violation;
mod waited;

pub use quiet::check_leftovers;
pub use violation::{SimCheck, SimViolation};
pub(crate) use waited::OVERDUE_MILLIS;

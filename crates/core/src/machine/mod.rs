//! What decides: a compiled definition, and the pure functions over it.

mod evolve;
mod input;
mod snapshot;
mod stub;

pub use evolve::evolve;
pub use input::{ActionInput, HttpRequest};
pub use snapshot::{SMALL_CONTEXT_BYTES, Snapshot, TRANSITIONS_PER_SNAPSHOT, snapshot_due};
pub use stub::*;

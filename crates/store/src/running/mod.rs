//! What is done to runs of devices, by whoever does it: load, let the pure core decide, write if nobody wrote
//! before, else look again.
//!
//! Nothing is decided here. [`Around`] is what the shell knows: the stores, the time, and how the outcome of a run
//! settles the action that waits for it.

mod acting;
mod around;
mod creating;
mod placing;
mod writing;

pub use acting::{Acted, Ask, act};
pub use around::{Around, Written, roster};
pub use creating::{Created, create};

//! Load during the faults: clients that post, repeat and record the answers.

pub mod client;
pub mod definitions;
pub mod record;
mod wire;

pub use client::TortureLoad;
pub use record::{PostRecord, PostVerdict, TorturePost};

//! Load during the faults: clients that post, repeat and record the answers.

pub mod client;
pub mod definitions;
pub mod record;
mod wire;

pub use client::Load;
pub use record::{Post, Record, Told};

//! What goes on while things break: clients that post, repeat and write down what they were told.

pub mod client;
pub mod definitions;
pub mod record;
mod wire;

pub use client::Load;
pub use record::{Post, Record, Told};

//! A device: registers, waits for runs, keeps them alive, and hands each to your function.

// Reading order: builder (what is said of a device), serving (its loop), performing (one run), then what they share.
mod builder;
mod context;
mod error;
mod held;
mod performing;
mod serving;

pub use builder::Device;
pub use context::RunContext;
pub use error::RunError;

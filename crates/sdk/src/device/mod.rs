//! A device: registers, waits for runs, sends heartbeats, and passes each run to your function.

// Reading order: builder, serving (the loop of a device), performing (one run), then what they share.
mod builder;
mod context;
mod device_loop;
mod error;
mod held_run;
mod perform_run;

pub use builder::Device;
pub use context::RunContext;
pub use error::RunError;

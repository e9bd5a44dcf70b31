//! Properties and examples of definitions, graphs and machines.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

mod examples;
mod graph_examples;
mod graph_properties;
mod hostile;
mod properties;
mod state_machines;

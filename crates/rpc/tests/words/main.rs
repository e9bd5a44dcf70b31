//! Conversion of messages: round trips, and detection of problems.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

mod answers;
mod arbitrary;
mod blob;
mod events;
mod generated_code;
mod requests;
mod specs;
mod views;

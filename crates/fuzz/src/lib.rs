//! What must hold for any input of the parsers, whoever sent it.
//!
//! A target is a function of bytes that panics when its promise is broken: no crash is the least of it,
//! most also say what a text that was read must be written as. The same functions are run twice: briefly
//! in every test run, over a seed corpus and seeded mutations of it (`tests/brief.rs`), and for as long as
//! one likes under libFuzzer (`fuzz/`, `scripts/fuzz`). An input that broke a promise stays in `corpus/`.
//!
//! [`edge`] is of another kind: byte streams for a running ingress.
//!
//! Reading order: [`target`] (the list), then one file per parser, [`mutate`].

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a target says that a promise is broken"
)]

mod cursor;
mod definition;
mod event_body;
mod expression;
mod header;
mod stream_entry;

pub mod edge;
pub mod mutate;
pub mod target;

pub use target::Target;

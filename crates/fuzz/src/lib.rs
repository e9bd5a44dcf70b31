//! Guarantees of the parsers for arbitrary input.
//!
//! A target is a function of bytes that panics when its guarantee is violated: none may crash, and most also
//! define the text that a parsed value is written as. The same functions run in two ways: briefly in every
//! test run, over a seed corpus and seeded mutations of it (`tests/brief.rs`), and without limit under
//! libFuzzer (`fuzz/`, `scripts/fuzz`). An input that violated a guarantee stays in `corpus/`.
//!
//! [`edge`] is different: byte streams for a running ingress.
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

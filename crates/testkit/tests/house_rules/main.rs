//! The rules of this code base that a compiler does not check, as ordinary tests.
//!
//! A rule is a function from one file to its complaints, so that each can be shown to bite on a
//! sample. Rules that would need an exception per month do not belong here.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test says that it failed, also in the functions around it"
)]

mod allow_list;
mod dependencies;
mod layout;
mod metric_labels;
mod module_cycles;
mod names;
mod purity;
mod tree;
mod walk;
mod wording;
mod worker_layers;

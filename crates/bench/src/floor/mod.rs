//! The limit: what the store alone does with the same rows, without HTTP, Redis or expressions.
//!
//! [`pipeline`] drives the engine's own statements at the engine's own batch sizes; [`raw`] writes the
//! least that three tables could need, for orientation. [`Preload`] is a by-product: a backlog put
//! into a file that nobody serves yet.

mod pipeline;
mod preload;
mod raw;
mod store;
mod values;

pub(crate) use pipeline::{Shape, measure};
pub(crate) use preload::Preload;
pub(crate) use raw::measure_raw;

//! The floor (upper limit of throughput): the store alone with the same rows, without HTTP, Redis or
//! expressions.
//!
//! [`pipeline`] runs the engine's own statements at the engine's own batch sizes; [`raw`] writes the minimum
//! that three tables could need, as a reference. [`BacklogPreload`] is a by-product: it writes a backlog to a file
//! before an engine serves it.

mod pipeline;
mod preload;
mod raw;
mod store;
mod values;

pub(crate) use pipeline::{FloorShape, measure_floor};
pub(crate) use preload::BacklogPreload;
pub(crate) use raw::measure_raw;

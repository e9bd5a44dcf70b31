//! The stored form of a graph: encodes and decodes `GraphState`.
//!
//! Data derived from the nodes is not stored and is rebuilt when decoding.

mod decode;
mod encode;

pub use decode::{StoredGraphHead, decode, decode_head};
pub use encode::encode;

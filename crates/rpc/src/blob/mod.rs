//! A graph as the bytes of `GraphState`, and back.
//!
//! What can be derived from the nodes is left out of the bytes and made anew when they are read.

mod decode;
mod encode;

pub use decode::{Head, decode, head};
pub use encode::encode;

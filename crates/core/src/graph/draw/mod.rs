//! Graphs as pictures: text for terminals, SVG for everybody else.
//!
//! Both are made of a [`Sketch`] of each node, so that whoever has node rows need not load the graph. A large
//! graph is drawn as well: what would be too much to look at is counted instead.

mod ascii;
mod layers;
mod sketch;
mod svg;

pub use ascii::ascii;
pub use sketch::{Sketch, sketches};
pub use svg::svg;

#[cfg(test)]
mod tests;

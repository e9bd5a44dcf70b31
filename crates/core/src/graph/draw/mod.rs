//! Draws graphs: text for terminals, SVG for everything else.
//!
//! Both draw a list of [`Sketch`]es, one per node, so a caller with node rows need not load the graph. Large
//! graphs are summarised: layers and nodes beyond a limit are counted.

mod ascii;
mod layers;
mod sketch;
mod svg;

pub use ascii::ascii;
pub use sketch::{Sketch, sketches};
pub use svg::svg;

#[cfg(test)]
mod tests;

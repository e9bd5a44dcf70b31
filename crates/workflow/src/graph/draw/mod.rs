//! Draws graphs: text for terminals, SVG for everything else.
//!
//! Both draw a list of [`NodeSketch`]es, one per node, so a caller with node rows need not load the graph. Large
//! graphs are summarised: layers and nodes beyond a limit are counted.

mod ascii;
mod layers;
mod sketch;
mod svg;

pub use ascii::draw_ascii;
pub use sketch::{NodeSketch, sketch_nodes};
pub use svg::draw_svg;

#[cfg(test)]
mod tests;

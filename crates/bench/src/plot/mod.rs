//! The report as one SVG file: throughput over time, throughput by workload, latencies.
//!
//! Written by hand: a few rectangles, lines and texts on white, readable without a script or a font.

mod chart;
mod draw;
mod svg;

pub use draw::draw_report;

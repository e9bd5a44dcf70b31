//! Results of the line benchmark.

use serde::Serialize;

use crate::calls::CallFigure;

#[derive(Debug, Clone, Serialize)]
pub struct LineReport {
    pub items: usize,
    /// Time to fill the line by statements; it says nothing about imports.
    pub fill_seconds: f64,
    pub figures: Vec<LineFigure>,
    /// CPU cores used by other programs: neither the engine, nor its services, nor this process.
    pub cores_taken_by_others: Option<f64>,
}

/// One kind of request; latency counts from its due time.
#[derive(Debug, Clone, Serialize)]
pub struct LineFigure {
    pub per_second: f64,
    #[serde(flatten)]
    pub asked: CallFigure,
    pub given: usize,
    /// Answers without an item; zero in a line that is long enough.
    pub nothing: usize,
    pub pushed_back: usize,
    /// Median send delay caused by the generator: part of every latency.
    pub send_delay_p50_ms: f64,
}

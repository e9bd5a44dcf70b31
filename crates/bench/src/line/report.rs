//! What was found about a long line.

use serde::Serialize;

use crate::calls::CallFigure;

#[derive(Debug, Clone, Serialize)]
pub struct LineReport {
    pub items: usize,
    /// How long it took to make it, by statements: no measure of an import.
    pub fill_seconds: f64,
    pub figures: Vec<LineFigure>,
    /// CPU cores that neither the engine, nor its services, nor this process used meanwhile.
    pub cores_taken_by_others: Option<f64>,
}

/// One way to ask; latency counts from when somebody was to ask.
#[derive(Debug, Clone, Serialize)]
pub struct LineFigure {
    pub per_second: f64,
    #[serde(flatten)]
    pub asked: CallFigure,
    pub given: usize,
    /// How often there was nothing for whoever asked; not in a line that is long enough.
    pub nothing: usize,
    pub pushed_back: usize,
    /// How late requests left, because of us: the median, part of every latency.
    pub send_delay_p50_ms: f64,
}

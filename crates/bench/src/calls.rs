//! Latency per kind of HTTP call.

use serde::Serialize;

use crate::latency::{LatencyHistogram, LatencyPercentiles};
use crate::table::{format_millis, new_table, table_cells};

/// All calls of one name in one run.
#[derive(Debug, Clone, Serialize)]
pub struct CallFigure {
    pub call: &'static str,
    pub latency: LatencyPercentiles,
}

impl CallFigure {
    pub(crate) fn from_latencies(call: &'static str, latencies: &LatencyHistogram) -> Self {
        Self { call, latency: latencies.percentiles() }
    }
}

pub(crate) fn calls_table(figures: &[CallFigure]) -> String {
    let mut table = new_table(&["call", "count", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms"]);
    for CallFigure { call, latency } in figures {
        table.add_row(table_cells(&[
            (*call).to_owned(),
            latency.count.to_string(),
            format_millis(latency.p50_ms),
            format_millis(latency.p90_ms),
            format_millis(latency.p99_ms),
            format_millis(latency.p999_ms),
            format_millis(latency.max_ms),
        ]));
    }
    table.trim_fmt()
}

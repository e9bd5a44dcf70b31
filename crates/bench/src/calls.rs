//! Latency per kind of HTTP call.

use serde::Serialize;

use crate::latency::{Latencies, Percentiles};
use crate::table::{cells, millis, table};

/// All calls of one name in one run.
#[derive(Debug, Clone, Serialize)]
pub struct CallFigure {
    pub call: &'static str,
    pub latency: Percentiles,
}

impl CallFigure {
    pub(crate) fn of(call: &'static str, latencies: &Latencies) -> Self {
        Self { call, latency: latencies.percentiles() }
    }
}

pub(crate) fn calls(figures: &[CallFigure]) -> String {
    let mut table = table(&["call", "count", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms"]);
    for CallFigure { call, latency } in figures {
        table.add_row(cells(&[
            (*call).to_owned(),
            latency.count.to_string(),
            millis(latency.p50_ms),
            millis(latency.p90_ms),
            millis(latency.p99_ms),
            millis(latency.p999_ms),
            millis(latency.max_ms),
        ]));
    }
    table.trim_fmt()
}

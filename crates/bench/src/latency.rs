//! Latencies: recorded in microseconds, reported as percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::error::{BenchError, BenchResult};

/// Longer latencies are recorded as this.
const LONGEST_MICROS: u64 = 120_000_000;

/// Percentiles of every table.
pub(crate) const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// A recording with three significant digits.
#[derive(Debug, Clone)]
pub(crate) struct LatencyHistogram {
    histogram: Histogram<u64>,
}

/// Summary of a recording, in milliseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LatencyPercentiles {
    pub count: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
    /// (percentile, milliseconds), denser towards the end: for plots.
    pub curve: Vec<(f64, f64)>,
}

impl LatencyHistogram {
    pub(crate) fn new() -> BenchResult<Self> {
        let histogram = Histogram::new_with_bounds(1, LONGEST_MICROS, 3)
            .map_err(|error| BenchError::Wrong(format!("no histogram: {error}")))?;
        Ok(Self { histogram })
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(micros.clamp(1, LONGEST_MICROS));
    }

    pub(crate) fn percentiles(&self) -> LatencyPercentiles {
        let at = |percentile: f64| to_millis(self.histogram.value_at_percentile(percentile));
        if self.histogram.is_empty() {
            return LatencyPercentiles::default();
        }
        let [p50, p90, p99, p999] = PERCENTILES.map(at);
        LatencyPercentiles {
            count: self.histogram.len(),
            mean_ms: self.histogram.mean() / 1000.0,
            p50_ms: p50,
            p90_ms: p90,
            p99_ms: p99,
            p999_ms: p999,
            max_ms: to_millis(self.histogram.max()),
            curve: CURVE.iter().map(|percentile| (*percentile, at(*percentile))).collect(),
        }
    }
}

/// Percentiles at which a curve is drawn.
const CURVE: &[f64] = &[
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 92.5, 95.0, 97.5, 98.0, 99.0,
    99.5, 99.9, 99.99, 100.0,
];

#[expect(clippy::cast_precision_loss, reason = "two minutes in microseconds fit a double exactly")]
fn to_millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_known_latencies() {
        let mut latencies = LatencyHistogram::new().unwrap();
        for millis in 1..=1000 {
            latencies.record(Duration::from_millis(millis));
        }
        let seen = latencies.percentiles();
        assert_eq!(seen.count, 1000);
        let near = |left: f64, right: f64| (left - right).abs() <= right * 0.002;
        for (seen, wanted) in
            [(seen.p50_ms, 500.0), (seen.p90_ms, 900.0), (seen.p99_ms, 990.0), (seen.p999_ms, 999.0)]
        {
            assert!(near(seen, wanted), "{seen} is not {wanted}");
        }
        assert!(near(seen.max_ms, 1000.0) && near(seen.mean_ms, 500.5));
        assert!(seen.curve.windows(2).all(|pair| pair[0].1 <= pair[1].1), "a curve only rises");
    }

    #[test]
    fn extreme_latencies_stay_in_bounds() {
        let mut latencies = LatencyHistogram::new().unwrap();
        assert_eq!(latencies.percentiles().count, 0);
        latencies.record(Duration::ZERO);
        latencies.record(Duration::MAX);
        let seen = latencies.percentiles();
        assert_eq!(seen.count, 2);
        assert!(seen.max_ms >= 119_000.0 && seen.max_ms <= 121_000.0);
    }
}

//! Batch sizes and transaction times, from the engine's own histograms.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::BenchResult;
use crate::exposition::MetricsExposition;
use crate::target::EngineUnderTest;

/// (name in reports, name of the histogram).
const HISTOGRAMS: &[(&str, &str)] = &[
    ("append_items", "millstream_append_batch_size"),
    ("append_seconds", "millstream_append_seconds"),
    ("visit_executions", "millstream_worker_batch_executions"),
    ("commit_events", "millstream_worker_batch_events"),
    ("load_seconds", "millstream_worker_load_seconds"),
    ("commit_seconds", "millstream_worker_commit_seconds"),
    ("settle_seconds", "millstream_worker_settle_seconds"),
];

/// Observations of a histogram during a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BatchStatistics {
    pub count: f64,
    pub mean: f64,
}

/// All histograms at one moment: (count, sum) by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct HistogramReading {
    seen: BTreeMap<&'static str, (f64, f64)>,
    attempts: f64,
}

impl HistogramReading {
    pub(crate) async fn read_engine(subject: &mut EngineUnderTest) -> BenchResult<Self> {
        let front = subject.front_metrics().await?;
        let workers = subject.worker_counters().await?.unwrap_or_default();
        Ok(Self::from_expositions(&front, &workers))
    }

    fn from_expositions(front: &MetricsExposition, workers: &[MetricsExposition]) -> Self {
        let mut seen = BTreeMap::new();
        for (name, histogram) in HISTOGRAMS {
            // An embedded engine has one exposition for both roles; it is read as that of a worker.
            let sources: Vec<&MetricsExposition> =
                if histogram.contains("_worker_") { workers.iter().collect() } else { vec![front] };
            let sum = sources.iter().map(|source| source.histogram_totals(histogram));
            seen.insert(*name, sum.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1)));
        }
        let attempts =
            workers.iter().map(|one| one.sum_series("millstream_worker_action_attempts_total", "")).sum();
        Self { seen, attempts }
    }

    /// Means of the observations since `earlier`. Histograms without observations are left out.
    pub(crate) fn since(&self, earlier: &Self) -> BTreeMap<String, BatchStatistics> {
        let mut means = BTreeMap::new();
        for (name, (count, sum)) in &self.seen {
            let (before_count, before_sum) = earlier.seen.get(name).copied().unwrap_or_default();
            let (count, sum) = (count - before_count, sum - before_sum);
            if count > 0.0 {
                means.insert((*name).to_owned(), BatchStatistics { count, mean: sum / count });
            }
        }
        // The engine does not record the size of settle batches: attempts divided by settlements.
        if let Some(settled) = means.get("settle_seconds").copied() {
            let mean = (self.attempts - earlier.attempts) / settled.count;
            means.insert("settle_actions".to_owned(), BatchStatistics { count: settled.count, mean });
        }
        means
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_reading(appends: u32, events: u32, settles: u32, attempts: u32) -> HistogramReading {
        let front = format!(
            "millstream_append_batch_size_count {appends}\nmillstream_append_batch_size_sum {events}\n"
        );
        let worker = format!(
            "millstream_worker_settle_seconds_count {settles}\nmillstream_worker_settle_seconds_sum 1\n\
             millstream_worker_action_attempts_total{{outcome=\"success\"}} {attempts}\n"
        );
        HistogramReading::from_expositions(
            &MetricsExposition::from_body(front.into_bytes()),
            &[MetricsExposition::from_body(worker.into_bytes())],
        )
    }

    #[test]
    fn histogram_means_cover_the_interval() {
        let means = sample_reading(12, 1100, 30, 400).since(&sample_reading(2, 100, 10, 100));
        assert_eq!(means["append_items"], BatchStatistics { count: 10.0, mean: 100.0 });
        assert_eq!(means["settle_actions"], BatchStatistics { count: 20.0, mean: 15.0 });
        assert!(!means.contains_key("commit_events"), "nothing was recorded");
    }
}

//! Length of the line, and rate of requests.

use std::time::Duration;

use crate::error::{BenchError, BenchResult};
use crate::plan::BenchTarget;

/// What `millstream bench people --line N` measures.
#[derive(Debug, Clone)]
pub struct LineBench {
    /// Pending items.
    pub items: usize,
    /// Requests for the next item per second.
    pub per_second: f64,
    pub length: Duration,
}

impl LineBench {
    pub(crate) fn validate_plan(&self, target: &BenchTarget) -> BenchResult<()> {
        let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
        if !matches!(target, BenchTarget::Fleet { .. }) {
            return usage("--line fills the tables of PostgreSQL: it needs --fleet N");
        }
        if !(1_000..=10_000_000).contains(&self.items) {
            return usage("--line: between 1,000 and 10,000,000 items");
        }
        if !(1.0..=10_000.0).contains(&self.per_second) {
            return usage("--rate: between 1 and 10,000 calls per second");
        }
        if !(1..=1_000_000).contains(&self.call_count()) {
            return usage("--for: long enough for one call, and not for more than 1,000,000");
        }
        Ok(())
    }

    /// Number of requests in all.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
    pub(crate) fn call_count(&self) -> usize {
        (self.per_second * self.length.as_secs_f64()).round() as usize
    }
}

//! Number of devices, and rate of runs.

use std::time::Duration;

use crate::error::{BenchError, BenchResult};

/// What `millstream bench devices` measures.
#[derive(Debug, Clone)]
pub struct DeviceBench {
    /// Registered devices; each sends a heartbeat every thirty seconds.
    pub devices: usize,
    /// Runs created per second, independent of the progress of earlier ones (open loop).
    pub per_second: f64,
    pub length: Duration,
    /// Runs before the measured ones.
    pub warmup: usize,
    /// Runs driven concurrently afterwards.
    pub connections: usize,
}

impl DeviceBench {
    pub(crate) fn validate_plan(&self) -> BenchResult<()> {
        let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
        if !(10..=100_000).contains(&self.devices) {
            return usage("--devices: between 10 and 100,000");
        }
        if !(1.0..=100_000.0).contains(&self.per_second) {
            return usage("--rate: between 1 and 100,000 runs per second");
        }
        if !(1..=1_000_000).contains(&self.run_count()) {
            return usage("--for: long enough for one run, and not for more than 1,000,000");
        }
        if self.warmup > 100_000 {
            return usage("--warmup: at most 100,000 runs");
        }
        if !(1..=4096).contains(&self.connections) {
            return usage("--connections: between 1 and 4096");
        }
        Ok(())
    }

    /// Number of runs to create.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
    pub(crate) fn run_count(&self) -> usize {
        (self.per_second * self.length.as_secs_f64()).round() as usize
    }
}

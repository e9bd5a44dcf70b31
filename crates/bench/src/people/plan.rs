//! Number of people, and amount of work.

use crate::error::{BenchError, BenchResult};

/// What `millstream bench people` measures.
#[derive(Debug, Clone)]
pub struct PeopleBench {
    /// One connection per person; requests of a person are sequential.
    pub people: usize,
    pub items: usize,
    /// How many different people each item needs.
    pub overlap: usize,
    /// Items before the measured ones.
    pub warmup: usize,
}

impl PeopleBench {
    pub(crate) fn validate_plan(&self) -> BenchResult<()> {
        let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
        if !(1..=1000).contains(&self.people) {
            return usage("--people: between 1 and 1000");
        }
        if !(1..=1_000_000).contains(&self.items) {
            return usage("--items: between 1 and 1,000,000");
        }
        if !(1..=self.people).contains(&self.overlap) {
            return usage("--overlap: between 1 and the number of people, who are different for each item");
        }
        if self.warmup > 100_000 {
            return usage("--warmup: at most 100,000 items");
        }
        Ok(())
    }
}

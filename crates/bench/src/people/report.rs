//! Results of the people benchmark.

use serde::Serialize;

use crate::calls::CallFigure;
use crate::cost::WorkCost;
use crate::report::FigureSpread;

/// All runs; the median one in full.
#[derive(Debug, Clone, Serialize)]
pub struct PeopleReport {
    pub people: usize,
    pub items: usize,
    pub overlap: usize,
    /// An answer is one `next`, one `start` and one `submit`; with an overlap of 1 it is an item.
    pub answers_per_second: FigureSpread,
    pub median: PeopleRun,
    pub runs: Vec<PeopleRun>,
}

/// One queue from the first `next` to the last `submit`.
#[derive(Debug, Clone, Serialize)]
pub struct PeopleRun {
    pub answers: usize,
    pub seconds: f64,
    pub answers_per_second: f64,
    /// `next`, `start` and `submit`.
    pub calls: Vec<CallFigure>,
    /// Answers with status 429 or 503 (backpressure).
    pub pushed_back: usize,
    /// Import rate: one request of NDJSON per 100,000 items.
    pub imported_per_second: f64,
    /// Per answer.
    pub cost: WorkCost,
}

impl PeopleReport {
    /// `None` without runs. The median run by answers per second (of an even number, the lower one).
    pub(crate) fn from_runs(
        (people, items, overlap): (usize, usize, usize),
        runs: Vec<PeopleRun>,
    ) -> Option<Self> {
        let mut order: Vec<&PeopleRun> = runs.iter().collect();
        order.sort_by(|left, right| left.answers_per_second.total_cmp(&right.answers_per_second));
        let median = (*order.get(order.len().checked_sub(1)? / 2)?).clone();
        let answers_per_second = FigureSpread::from_values(runs.iter().map(|run| run.answers_per_second))?;
        Some(Self { people, items, overlap, answers_per_second, median, runs })
    }
}

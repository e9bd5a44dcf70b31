//! Collects validation problems: the first fifty, and the number of further ones.

use millstream_expr::{MAX_PATTERN_WEIGHT, PATTERNS_TOO_HEAVY};
use millstream_model::problem::{ValidationProblem, ValidationProblems};

use super::limits::MAX_PROBLEMS;

#[derive(Debug, Default)]
pub(super) struct GraphProblems {
    problems: Vec<ValidationProblem>,
    more: usize,
    /// Total weight of all compiled patterns.
    pattern_weight: usize,
    too_large: Option<ValidationProblem>,
}

/// Why a graph is rejected at creation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGraph {
    /// It exceeds a size limit.
    #[error("{0}")]
    TooLarge(ValidationProblem),
    #[error("{0}")]
    Problems(ValidationProblems),
}

impl InvalidGraph {
    /// All problems in either case.
    pub fn into_problems(self) -> ValidationProblems {
        match self {
            Self::TooLarge(problem) => problem.into(),
            Self::Problems(problems) => problems,
        }
    }
}

impl GraphProblems {
    pub(super) fn add_problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(ValidationProblem::new(path, message));
        } else {
            self.more += 1;
        }
    }

    pub(super) fn add_too_large(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.too_large.get_or_insert_with(|| ValidationProblem::new(path, message));
    }

    /// The patterns of a graph share one limit, like those of a definition.
    pub(super) fn weigh_patterns(&mut self, path: &str, weight: usize) {
        self.pattern_weight = self.pattern_weight.saturating_add(weight);
        if self.pattern_weight > MAX_PATTERN_WEIGHT {
            self.add_too_large(path, PATTERNS_TOO_HEAVY);
        }
    }

    /// Whether a further problem would only be counted.
    pub(super) fn is_full(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }

    /// Whether a size limit is exceeded, so that further checks are skipped.
    pub(super) fn is_too_large(&self) -> bool {
        self.too_large.is_some()
    }

    pub(super) fn into_result(mut self) -> Result<(), InvalidGraph> {
        if let Some(problem) = self.too_large {
            return Err(InvalidGraph::TooLarge(problem));
        }
        if self.more > 0 {
            self.problems.push(ValidationProblem::new("", format!("and {} more problems", self.more)));
        }
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(InvalidGraph::Problems(ValidationProblems(self.problems)))
        }
    }
}

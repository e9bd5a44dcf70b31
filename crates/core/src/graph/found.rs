//! Problems as they are found: the first fifty, and how many more there are.

use super::limits::MAX_PROBLEMS;
use crate::expr::{MAX_PATTERN_WEIGHT, PATTERNS_TOO_HEAVY};
use crate::problem::{Problem, Problems};

#[derive(Debug, Default)]
pub(super) struct Found {
    problems: Vec<Problem>,
    more: usize,
    /// Of all patterns that were compiled.
    pattern_weight: usize,
    too_large: Option<Problem>,
}

/// Why a graph is not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is more than the engine takes, whatever is in it.
    #[error("{0}")]
    TooLarge(Problem),
    #[error("{0}")]
    Problems(Problems),
}

impl Invalid {
    /// All that is wrong, either way.
    pub fn into_problems(self) -> Problems {
        match self {
            Self::TooLarge(problem) => problem.into(),
            Self::Problems(problems) => problems,
        }
    }
}

impl Found {
    pub(super) fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem::new(path, message));
        } else {
            self.more += 1;
        }
    }

    pub(super) fn too_large(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.too_large.get_or_insert_with(|| Problem::new(path, message));
    }

    /// The patterns of a graph are bounded together, as those of a definition are.
    pub(super) fn weigh_patterns(&mut self, path: &str, weight: usize) {
        self.pattern_weight = self.pattern_weight.saturating_add(weight);
        if self.pattern_weight > MAX_PATTERN_WEIGHT {
            self.too_large(path, PATTERNS_TOO_HEAVY);
        }
    }

    /// Whether a further problem would only be counted.
    pub(super) fn is_full(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }

    /// Whether something is so large that looking at the rest would be in vain.
    pub(super) fn is_too_large(&self) -> bool {
        self.too_large.is_some()
    }

    pub(super) fn into_result(mut self) -> Result<(), Invalid> {
        if let Some(problem) = self.too_large {
            return Err(Invalid::TooLarge(problem));
        }
        if self.more > 0 {
            self.problems.push(Problem::new("", format!("and {} more problems", self.more)));
        }
        if self.problems.is_empty() { Ok(()) } else { Err(Invalid::Problems(Problems(self.problems))) }
    }
}

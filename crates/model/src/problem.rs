//! Validation problems of user input: a path and a message.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One validation problem. The path is dotted, as in `states.paid.on.ship.to`; empty for the whole document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValidationProblem {
    pub path: String,
    pub message: String,
}

impl ValidationProblem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for ValidationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// All validation problems of one document. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ValidationProblems(pub Vec<ValidationProblem>);

impl From<ValidationProblem> for ValidationProblems {
    fn from(problem: ValidationProblem) -> Self {
        Self(vec![problem])
    }
}

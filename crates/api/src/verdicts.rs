//! Batches: one verdict per item, in order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// The verdicts of a batch, in the order of its items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Verdicts", deny_unknown_fields)]
pub struct Verdicts<T> {
    pub items: Vec<Verdict<T>>,
}

/// The result of an item, or the problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "{T}Verdict", deny_unknown_fields)]
pub enum Verdict<T> {
    Refused { problem: Box<Problem> },
    Done(T),
}

impl<T> From<Result<T, Problem>> for Verdict<T> {
    fn from(result: Result<T, Problem>) -> Self {
        match result {
            Ok(done) => Self::Done(done),
            Err(problem) => Self::Refused { problem: Box::new(problem) },
        }
    }
}

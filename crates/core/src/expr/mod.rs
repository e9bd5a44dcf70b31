//! Expressions: CEL, compiled once, evaluated over raw JSON within a budget.
//!
//! The language is CEL with an own parser and evaluator, because a workflow engine needs five features that
//! the available library lacks: a parser that cannot exhaust the stack, numbers that promote
//! (`context.n + 1` works whether the JSON said 7 or 7.5), a bound on the work of one evaluation, maps
//! that iterate in a fixed order, and access to a payload without turning all of it into values. An
//! expression is lowered to a [`Program`] whose references are *slots*: static paths such as
//! `event.payload.amount`, each cut out of the JSON text when it is first needed, at most once per
//! evaluation. `docs/decisions/expressions.md` has the reasons and the differences.
//!
//! Reading order: [`Value`], `number`, `fetch` (JSON text to value), `lexer`, `parser` and `lower`
//! (source to program), `eval` and `function` (program to value), [`template`] (values and texts with
//! expressions in them). This module knows neither states nor transitions and never panics on input.

mod budget;
mod error;
mod eval;
mod fetch;
mod function;
mod lexer;
mod lower;
mod number;
mod parser;
mod pattern;
mod program;
mod quoted;
mod scope;
mod span;
mod syntax;
pub mod template;
mod value;

pub use budget::{Budget, BudgetEnd, STEP_BYTES, STEP_UNITS, StopRule};
pub use error::EvalError;
pub(crate) use eval::excerpt;
pub(crate) use pattern::{MAX_PATTERN_WEIGHT, PATTERNS_TOO_HEAVY};
pub use program::{Program, Root, Secrets, Step, Vocabulary};
pub use scope::{EventScope, Scope};
pub use value::Value;

#[cfg(test)]
mod tests;

//! Expressions: CEL, compiled once, evaluated over raw JSON within a budget.
//!
//! The language is CEL with an own parser and evaluator, because a workflow engine needs five features that
//! the available library lacks: a parser that cannot exhaust the stack, numbers that promote
//! (`context.n + 1` works whether the JSON said 7 or 7.5), a bound on the work of one evaluation, maps
//! that iterate in a fixed order, and access to a payload without turning all of it into values. An
//! expression is lowered to a [`CelProgram`] whose references are *slots*: static paths such as
//! `event.payload.amount`, each cut out of the JSON text when it is first needed, at most once per
//! evaluation. `docs/decisions/expressions.md` has the reasons and the differences.
//!
//! Reading order: [`CelValue`], `number`, `fetch` (JSON text to value), `lexer`, `parser` and `lower`
//! (source to program), `eval` and `function` (program to value), `evaluation` (the interface of a program),
//! `template_source` and [`template`] (values and texts with expressions in them, as written and compiled). This
//! crate knows neither states nor transitions and never panics on input.

mod budget;
mod cel_duration;
mod error;
mod eval;
mod evaluation;
mod fetch;
mod function;
mod lexer;
mod lower;
mod number;
mod operator;
mod parser;
mod path;
mod pattern;
mod program;
mod scope;
mod string_literal;
mod syntax;
pub mod template;
mod template_source;
mod value;

pub use budget::{BudgetEnd, ExprBudget, STEP_BYTES, STEP_UNITS, StopRule};
pub use error::EvalError;
pub use eval::text_excerpt;
pub use path::{PathRoot, PathStep};
pub use pattern::{MAX_PATTERN_WEIGHT, PATTERNS_TOO_HEAVY};
pub use program::{CelProgram, ExprVocabulary, SecretPolicy};
pub use scope::{EventScope, ExprScope};
pub use template_source::{TextTemplate, TextTemplatePart, ValueTemplate};
pub use value::CelValue;

#[cfg(test)]
mod tests;

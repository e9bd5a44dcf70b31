//! The interface of a program: compiled from its source, evaluated in a scope.

use millstream_model::context::MAX_CONTEXT_BYTES;
use millstream_model::raw::{InvalidJson, RawJson};

use super::path::{PathRoot, PathSlot, PathStep, SlotAccess};
use super::program::{CelProgram, ExprNode, ExprVocabulary};
use super::syntax::SyntaxTree;
use super::{CelValue, EvalError, ExprBudget, ExprScope, eval, lower, parser};

/// Cost of compiling the shortest expression.
const COMPILE_UNITS: u64 = 10;

impl CelProgram {
    /// Compiles CEL; the error lists all problems and is never empty.
    pub fn compile(source: &str, vocabulary: ExprVocabulary<'_>) -> Result<Self, Vec<String>> {
        let parsed = parser::parse(source).map_err(|message| vec![message])?;
        lower::lower_syntax(&parsed, vocabulary)
    }

    /// Compiles CEL that is evaluated once, and charges the budget of the step.
    pub fn compile_within(
        source: &str,
        vocabulary: ExprVocabulary<'_>,
        budget: &ExprBudget<'_>,
    ) -> Result<Self, Vec<String>> {
        let exhausted = |error: EvalError| vec![error.to_string()];
        budget.spend(COMPILE_UNITS + source.len() as u64 / 2).map_err(exhausted)?;
        let program = Self::compile(source, vocabulary)?;
        budget.spend(program.compile_units).map_err(exhausted)?;
        Ok(program)
    }

    /// The name of the secret, if the whole source is `secret("name")`.
    pub fn secret_name(source: &str) -> Option<String> {
        match parser::parse(source) {
            Ok(SyntaxTree::Call { function, target: None, arguments }) if function == "secret" => {
                match &arguments[..] {
                    [SyntaxTree::Literal(CelValue::Text(name))] => Some(name.as_ref().to_owned()),
                    [..] => None,
                }
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// The value; the memory of intermediate values is released.
    pub fn evaluate(&self, scope: &ExprScope<'_>) -> Result<CelValue, EvalError> {
        scope.budget.run_scoped(|| eval::evaluate(self, scope))
    }

    /// The value as JSON, whose bytes stay held in the budget. An expression that is a plain path copies the
    /// JSON text at its end, so that numbers keep their original digits.
    pub fn evaluate_json(&self, scope: &ExprScope<'_>) -> Result<RawJson, EvalError> {
        let raw = scope.budget.run_scoped(|| self.eval_json(scope))?;
        scope.budget.keep_bytes(raw.len())?;
        Ok(raw)
    }

    /// The value and its JSON, evaluated once.
    pub fn evaluate_both(&self, scope: &ExprScope<'_>) -> Result<(CelValue, RawJson), EvalError> {
        let value = eval::evaluate(self, scope)?;
        let raw = match self.path_text(scope)? {
            Some(raw) => raw,
            None => as_json(&value, scope.budget)?,
        };
        Ok((value, raw))
    }

    fn eval_json(&self, scope: &ExprScope<'_>) -> Result<RawJson, EvalError> {
        match self.path_text(scope)? {
            Some(raw) => Ok(raw),
            None => as_json(&eval::evaluate(self, scope)?, scope.budget),
        }
    }

    /// The text at the end of the path, if the expression is a plain path into JSON.
    fn path_text(&self, scope: &ExprScope<'_>) -> Result<Option<RawJson>, EvalError> {
        let (ExprNode::Slot(0), [PathSlot { root, path, want: SlotAccess::Value }]) =
            (&self.node, &self.slots[..])
        else {
            return Ok(None);
        };
        let Some(raw) = scope.raw_at(*root, path)? else { return Ok(None) };
        scope.budget.parse_json(raw.len())?;
        raw.check_nesting().map_err(too_deep)?;
        Ok(Some(raw))
    }

    /// Estimated memory size of its patterns.
    pub fn pattern_weight(&self) -> usize {
        self.pattern_weight
    }

    /// The paths that evaluation may follow.
    pub fn references(&self) -> impl Iterator<Item = (PathRoot, &[PathStep])> {
        self.slots.iter().map(|slot| (slot.root, &slot.path[..]))
    }
}

fn as_json(value: &CelValue, budget: &ExprBudget<'_>) -> Result<RawJson, EvalError> {
    let mut text = String::new();
    value.write_json(&mut text, MAX_CONTEXT_BYTES, budget)?;
    budget.build_text(text.len())?;
    budget.parse_json(text.len())?;
    RawJson::parse(&text).map_err(too_deep)
}

fn too_deep(error: InvalidJson) -> EvalError {
    EvalError::new(format!("the value is {error}"))
}

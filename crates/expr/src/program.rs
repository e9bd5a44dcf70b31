//! The compiled form of an expression.

use std::collections::BTreeSet;

use millstream_model::context::MAX_CONTEXT_BYTES;
use millstream_model::id::Name;
use millstream_model::raw::{InvalidJson, RawJson};

use super::function::CelFunction;
use super::pattern::CompiledPattern;
use super::syntax::SyntaxTree;
use super::{CelValue, EvalError, ExprBudget, ExprScope, eval, lower, parser};

/// A compiled expression, which can be evaluated any number of times from any thread.
#[derive(Debug)]
pub struct CelProgram {
    pub(super) node: ExprNode,
    /// The external references; nodes refer to a slot by its index here.
    pub(super) slots: Vec<PathSlot>,
    /// Maximum number of variables that nested comprehensions bind.
    pub(super) locals: usize,
    /// Estimated memory size of its patterns.
    pub(super) pattern_weight: usize,
    /// Cost of compiling its patterns.
    pub(super) compile_units: u64,
}

/// Cost of compiling the shortest expression.
const COMPILE_UNITS: u64 = 10;

/// The root names that an expression may use.
#[derive(Debug, Clone, Copy)]
pub enum ExprVocabulary<'a> {
    /// In `if` and `set`: `context`, `event`, `now`.
    Decision,
    /// In `correlate`: `context` alone.
    Context,
    /// In actions: additionally `results.<name>` for the actions that it needs.
    Action { needs: &'a [Name], secrets: SecretPolicy },
    /// In the `result` of an HTTP action: `response` alone.
    Response,
    /// In a node of a graph: `input`, and `results.<id>` for its parents.
    Graph { parents: &'a BTreeSet<&'a str> },
    /// In rules about the answer of a person: `answer`, `item` (its payload) and `person`.
    Answer,
}

/// Whether `secret("name")` is allowed as a whole value or a whole `${…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretPolicy {
    Allowed,
    /// The rendered value is stored or shown as it is.
    Refused,
}

/// The root of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathRoot {
    Context,
    Event,
    Now,
    Results,
    Response,
    Input,
    Answer,
    Item,
    Person,
}

impl PathRoot {
    /// Its name in expressions.
    pub(super) const fn root_name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Event => "event",
            Self::Now => "now",
            Self::Results => "results",
            Self::Response => "response",
            Self::Input => "input",
            Self::Answer => "answer",
            Self::Item => "item",
            Self::Person => "person",
        }
    }
}

/// One step of a static path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathStep {
    Field(String),
    Index(i64),
}

/// A static path, and whether its value or its presence is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathSlot {
    pub(super) root: PathRoot,
    pub(super) path: Vec<PathStep>,
    pub(super) want: SlotAccess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotAccess {
    Value,
    /// `has(path)`.
    Presence,
}

#[derive(Debug)]
pub(super) enum ExprNode {
    Literal(CelValue),
    Slot(usize),
    Local(usize),
    Field {
        operand: Box<ExprNode>,
        field: String,
    },
    Has {
        operand: Box<ExprNode>,
        field: String,
    },
    Index {
        operand: Box<ExprNode>,
        index: Box<ExprNode>,
    },
    Not(Box<ExprNode>),
    Negate(Box<ExprNode>),
    And(Box<ExprNode>, Box<ExprNode>),
    Or(Box<ExprNode>, Box<ExprNode>),
    If {
        condition: Box<ExprNode>,
        then: Box<ExprNode>,
        otherwise: Box<ExprNode>,
    },
    Binary {
        operator: BinaryOperator,
        left: Box<ExprNode>,
        right: Box<ExprNode>,
    },
    List(Vec<ExprNode>),
    Map(Vec<(ExprNode, ExprNode)>),
    Call {
        function: CelFunction,
        arguments: Vec<ExprNode>,
    },
    /// `matches()` with a literal pattern, compiled once.
    Matches {
        operand: Box<ExprNode>,
        pattern: CompiledPattern,
    },
    Each {
        macro_: CelMacro,
        range: Box<ExprNode>,
        local: usize,
        body: Box<ExprNode>,
    },
    /// `range.map(x, keep, body)`.
    MapWhere {
        range: Box<ExprNode>,
        local: usize,
        keep: Box<ExprNode>,
        body: Box<ExprNode>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CelMacro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
}

impl BinaryOperator {
    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "in",
        }
    }
}

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

//! The compiled form of an expression.

use std::collections::BTreeSet;

use crate::id::Name;
use crate::log::MAX_CONTEXT_BYTES;
use crate::raw::{InvalidJson, RawJson};

use super::function::Function;
use super::pattern::Pattern;
use super::syntax::Syntax;
use super::{Budget, EvalError, Scope, Value, eval, lower, parser};

/// A compiled expression, which can be evaluated any number of times from any thread.
#[derive(Debug)]
pub struct Program {
    pub(super) node: Node,
    /// The external references; nodes refer to a slot by its index here.
    pub(super) slots: Vec<Slot>,
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
pub enum Vocabulary<'a> {
    /// In `if` and `set`: `context`, `event`, `now`.
    Decision,
    /// In `correlate`: `context` alone.
    Context,
    /// In actions: additionally `results.<name>` for the actions that it needs.
    Action { needs: &'a [Name], secrets: Secrets },
    /// In the `result` of an HTTP action: `response` alone.
    Response,
    /// In a node of a graph: `input`, and `results.<id>` for its parents.
    Graph { parents: &'a BTreeSet<&'a str> },
    /// In rules about the answer of a person: `answer`, `item` (its payload) and `person`.
    Answer,
}

/// Whether `secret("name")` is allowed as a whole value or a whole `${…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    Allowed,
    /// The rendered value is stored or shown as it is.
    Refused,
}

/// The root of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Root {
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

impl Root {
    /// Its name in expressions.
    pub(super) const fn word(self) -> &'static str {
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
pub enum Step {
    Field(String),
    Index(i64),
}

/// A static path, and whether its value or its presence is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) root: Root,
    pub(super) path: Vec<Step>,
    pub(super) want: Want,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Value,
    /// `has(path)`.
    Presence,
}

#[derive(Debug)]
pub(super) enum Node {
    Literal(Value),
    Slot(usize),
    Local(usize),
    Field {
        operand: Box<Node>,
        field: String,
    },
    Has {
        operand: Box<Node>,
        field: String,
    },
    Index {
        operand: Box<Node>,
        index: Box<Node>,
    },
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    If {
        condition: Box<Node>,
        then: Box<Node>,
        otherwise: Box<Node>,
    },
    Binary {
        operator: Binary,
        left: Box<Node>,
        right: Box<Node>,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Call {
        function: Function,
        arguments: Vec<Node>,
    },
    /// `matches()` with a literal pattern, compiled once.
    Matches {
        operand: Box<Node>,
        pattern: Pattern,
    },
    Each {
        macro_: Macro,
        range: Box<Node>,
        local: usize,
        body: Box<Node>,
    },
    /// `range.map(x, keep, body)`.
    MapWhere {
        range: Box<Node>,
        local: usize,
        keep: Box<Node>,
        body: Box<Node>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
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

impl Binary {
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

impl Program {
    /// Compiles CEL; the error lists all problems and is never empty.
    pub fn compile(source: &str, vocabulary: Vocabulary<'_>) -> Result<Self, Vec<String>> {
        let parsed = parser::parse(source).map_err(|message| vec![message])?;
        lower::lower(&parsed, vocabulary)
    }

    /// Compiles CEL that is evaluated once, and charges the budget of the step.
    pub fn compile_within(
        source: &str,
        vocabulary: Vocabulary<'_>,
        budget: &Budget<'_>,
    ) -> Result<Self, Vec<String>> {
        let exhausted = |error: EvalError| vec![error.to_string()];
        budget.spend(COMPILE_UNITS + source.len() as u64 / 2).map_err(exhausted)?;
        let program = Self::compile(source, vocabulary)?;
        budget.spend(program.compile_units).map_err(exhausted)?;
        Ok(program)
    }

    /// The name of the secret, if the whole source is `secret("name")`.
    pub fn secret(source: &str) -> Option<String> {
        match parser::parse(source) {
            Ok(Syntax::Call { function, target: None, arguments }) if function == "secret" => {
                match &arguments[..] {
                    [Syntax::Literal(Value::Text(name))] => Some(name.as_ref().to_owned()),
                    [..] => None,
                }
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// The value; the memory of intermediate values is released.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, EvalError> {
        scope.budget.scoped(|| eval::evaluate(self, scope))
    }

    /// The value as JSON, whose bytes stay held in the budget. An expression that is a plain path copies the
    /// JSON text at its end, so that numbers keep their original digits.
    pub fn evaluate_json(&self, scope: &Scope<'_>) -> Result<RawJson, EvalError> {
        let raw = scope.budget.scoped(|| self.json(scope))?;
        scope.budget.keep(raw.len())?;
        Ok(raw)
    }

    /// The value and its JSON, evaluated once.
    pub fn evaluate_both(&self, scope: &Scope<'_>) -> Result<(Value, RawJson), EvalError> {
        let value = eval::evaluate(self, scope)?;
        let raw = match self.path(scope)? {
            Some(raw) => raw,
            None => as_json(&value, scope.budget)?,
        };
        Ok((value, raw))
    }

    fn json(&self, scope: &Scope<'_>) -> Result<RawJson, EvalError> {
        match self.path(scope)? {
            Some(raw) => Ok(raw),
            None => as_json(&eval::evaluate(self, scope)?, scope.budget),
        }
    }

    /// The text at the end of the path, if the expression is a plain path into JSON.
    fn path(&self, scope: &Scope<'_>) -> Result<Option<RawJson>, EvalError> {
        let (Node::Slot(0), [Slot { root, path, want: Want::Value }]) = (&self.node, &self.slots[..]) else {
            return Ok(None);
        };
        let Some(raw) = scope.raw(*root, path)? else { return Ok(None) };
        scope.budget.parse_json(raw.len())?;
        raw.within_depth().map_err(too_deep)?;
        Ok(Some(raw))
    }

    /// Estimated memory size of its patterns.
    pub(crate) fn pattern_weight(&self) -> usize {
        self.pattern_weight
    }

    /// The paths that evaluation may follow.
    pub fn references(&self) -> impl Iterator<Item = (Root, &[Step])> {
        self.slots.iter().map(|slot| (slot.root, &slot.path[..]))
    }
}

fn as_json(value: &Value, budget: &Budget<'_>) -> Result<RawJson, EvalError> {
    let mut text = String::new();
    value.write_json(&mut text, MAX_CONTEXT_BYTES, budget)?;
    budget.build_text(text.len())?;
    budget.parse_json(text.len())?;
    RawJson::parse(&text).map_err(too_deep)
}

fn too_deep(error: InvalidJson) -> EvalError {
    EvalError::new(format!("the value is {error}"))
}

//! A compiled expression.

use std::collections::BTreeSet;
use std::sync::Arc;

use regex::Regex;

use crate::id::Name;
use crate::log::MAX_CONTEXT_BYTES;
use crate::raw::{InvalidJson, RawJson};

use super::function::Function;
use super::syntax::Syntax;
use super::{EvalError, Scope, Value, eval, lower, parser};

/// An expression that is ready to be evaluated any number of times, from any thread.
#[derive(Debug)]
pub struct Program {
    pub(super) node: Node,
    /// Everything outside that it refers to; nodes name a slot by its place here.
    pub(super) slots: Vec<Slot>,
    /// How many variables comprehensions bind at the deepest point.
    pub(super) locals: usize,
}

/// Which names an expression may begin with.
#[derive(Debug, Clone, Copy)]
pub enum Vocabulary<'a> {
    /// In `if` and `set`: `context`, `event`, `now`.
    Decision,
    /// In `correlate`: `context` alone.
    Context,
    /// In actions also `results.<name>` for the names that the action needs.
    Action { needs: &'a [Name], secrets: Secrets },
    /// In the `result` of an HTTP action: `response` alone.
    Response,
    /// In a node of a graph: `input`, and `results.<id>` for its parents.
    Graph { parents: &'a BTreeSet<&'a str> },
    /// About what a person handed in: `answer`, `item` (its payload) and `person`.
    Answer,
}

/// Whether `secret("name")` may stand for a whole value or a whole `${…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    Allowed,
    /// What is rendered is stored or shown to others as it is.
    Refused,
}

/// What a path starts at.
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
    /// As expressions name it.
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

/// A static path and what is wanted from its end.
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
    /// A pattern that is known in advance is compiled in advance.
    Matches {
        operand: Box<Node>,
        pattern: Arc<Regex>,
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
    /// Compiles CEL; an error is everything that is wrong with it, never empty.
    pub fn compile(source: &str, vocabulary: Vocabulary<'_>) -> Result<Self, Vec<String>> {
        let parsed = parser::parse(source).map_err(|message| vec![message])?;
        lower::lower(&parsed, vocabulary)
    }

    /// The name of the secret, if the source is nothing but `secret("name")`.
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

    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, EvalError> {
        eval::evaluate(self, scope)
    }

    /// The value as JSON. An expression that is nothing but a path copies the text it leads to, so that
    /// numbers keep the digits they came with.
    pub fn evaluate_json(&self, scope: &Scope<'_>) -> Result<RawJson, EvalError> {
        if let (Node::Slot(0), [Slot { root, path, want: Want::Value }]) = (&self.node, &self.slots[..])
            && let Some(raw) = scope.raw(*root, path)?
        {
            raw.within_depth().map_err(too_deep)?;
            return Ok(raw);
        }
        let mut text = String::new();
        self.evaluate(scope)?.write_json(&mut text, MAX_CONTEXT_BYTES)?;
        RawJson::parse(&text).map_err(too_deep)
    }

    /// The paths that evaluation may follow.
    pub fn references(&self) -> impl Iterator<Item = (Root, &[Step])> {
        self.slots.iter().map(|slot| (slot.root, &slot.path[..]))
    }
}

fn too_deep(error: InvalidJson) -> EvalError {
    EvalError::new(format!("the value is {error}"))
}

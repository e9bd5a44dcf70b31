//! The compiled form of an expression: nodes and the paths that they refer to.

use std::collections::BTreeSet;

use millstream_model::id::Name;

use super::CelValue;
use super::function::CelFunction;
use super::operator::BinaryOperator;
use super::path::PathSlot;
use super::pattern::CompiledPattern;

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

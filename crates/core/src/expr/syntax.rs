//! The syntax tree of an expression, before name resolution.

use super::Value;
use super::program::Binary;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Syntax {
    Literal(Value),
    Ident(String),
    /// `operand.field`
    Select {
        operand: Box<Syntax>,
        field: String,
    },
    /// `operand[index]`
    Index {
        operand: Box<Syntax>,
        index: Box<Syntax>,
    },
    /// `function(…)` or `target.function(…)`
    Call {
        function: String,
        target: Option<Box<Syntax>>,
        arguments: Vec<Syntax>,
    },
    Not(Box<Syntax>),
    Negate(Box<Syntax>),
    And(Box<Syntax>, Box<Syntax>),
    Or(Box<Syntax>, Box<Syntax>),
    If {
        condition: Box<Syntax>,
        then: Box<Syntax>,
        otherwise: Box<Syntax>,
    },
    Binary {
        operator: Binary,
        left: Box<Syntax>,
        right: Box<Syntax>,
    },
    List(Vec<Syntax>),
    Map(Vec<(Syntax, Syntax)>),
}

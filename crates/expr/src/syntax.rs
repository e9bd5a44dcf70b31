//! The syntax tree of an expression, before name resolution.

use super::CelValue;
use super::operator::BinaryOperator;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SyntaxTree {
    Literal(CelValue),
    Ident(String),
    /// `operand.field`
    Select {
        operand: Box<SyntaxTree>,
        field: String,
    },
    /// `operand[index]`
    Index {
        operand: Box<SyntaxTree>,
        index: Box<SyntaxTree>,
    },
    /// `function(…)` or `target.function(…)`
    Call {
        function: String,
        target: Option<Box<SyntaxTree>>,
        arguments: Vec<SyntaxTree>,
    },
    Not(Box<SyntaxTree>),
    Negate(Box<SyntaxTree>),
    And(Box<SyntaxTree>, Box<SyntaxTree>),
    Or(Box<SyntaxTree>, Box<SyntaxTree>),
    If {
        condition: Box<SyntaxTree>,
        then: Box<SyntaxTree>,
        otherwise: Box<SyntaxTree>,
    },
    Binary {
        operator: BinaryOperator,
        left: Box<SyntaxTree>,
        right: Box<SyntaxTree>,
    },
    List(Vec<SyntaxTree>),
    Map(Vec<(SyntaxTree, SyntaxTree)>),
}

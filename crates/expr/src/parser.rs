//! The parser: CEL's grammar by recursive descent, from tokens to a syntax tree.
//!
//! ```text
//! expression = or ['?' or ':' expression]          unary  = {'!'} member | {'-'} member
//! or         = and {'||' and}                      member = primary {'.' name ['(' list ')'] | '[' expression ']'}
//! and        = relation {'&&' relation}            primary = literal | name ['(' list ')'] | '(' expression ')'
//! relation   = sum {('<' | '==' | 'in' | …) sum}           | '[' list ']' | '{' map '}'
//! sum        = product {('+' | '-') product}
//! product    = unary {('*' | '/' | '%') unary}
//! ```
//!
//! [`MAX_NESTING`] bounds the stack depth of the parser and of all later passes, because a stack overflow
//! ends the process.

use super::CelValue;
use super::lexer::{CelToken, PositionedToken, SyntaxError, lex_tokens};
use super::operator::BinaryOperator;
use super::syntax::SyntaxTree;

/// The longest expression, in bytes.
const MAX_SOURCE: usize = 4096;
/// Maximum nesting of brackets and conditionals.
const MAX_NESTING: usize = 32;
/// Maximum number of consecutive operators of one precedence, and length of a member chain.
const MAX_CHAIN: usize = 64;

/// Reserved words of CEL.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The syntax tree of `source`, or a one-line error with its position.
pub(super) fn parse(source: &str) -> Result<SyntaxTree, String> {
    if source.trim().is_empty() {
        return Err("is an empty expression".to_owned());
    }
    if source.len() > MAX_SOURCE {
        return Err(format!("is {} bytes long, at most {MAX_SOURCE} are allowed", source.len()));
    }
    let parsed = lex_tokens(source).and_then(|tokens| {
        let mut parser = ExprParser { tokens: &tokens, next: 0, nesting: 0 };
        let syntax = parser.parse_expression()?;
        let rest = parser.peek();
        if *rest != CelToken::End {
            return Err(parser.syntax_error(format!("unexpected {}", rest.describe_token())));
        }
        Ok(syntax)
    });
    parsed.map_err(|error| {
        let column = source.get(..error.at).map_or(0, |before| before.chars().count()) + 1;
        format!("{} (at column {column})", error.message)
    })
}

/// Combines two operands into one expression.
type OperandJoin = fn(SyntaxTree, SyntaxTree) -> SyntaxTree;

struct ExprParser<'t> {
    /// Ends with [`CelToken::End`], which is never consumed.
    tokens: &'t [PositionedToken],
    next: usize,
    nesting: usize,
}

impl<'t> ExprParser<'t> {
    fn peek(&self) -> &'t CelToken {
        self.tokens.get(self.next).map_or(&CelToken::End, |placed| &placed.token)
    }

    fn take(&mut self) -> &'t CelToken {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn syntax_error(&self, message: impl Into<String>) -> SyntaxError {
        let placed = self.tokens.get(self.next).or(self.tokens.last());
        SyntaxError { at: placed.map_or(0, |placed| placed.at), message: message.into() }
    }

    fn accept(&mut self, sign: &'static str) -> Option<()> {
        (*self.peek() == CelToken::Sign(sign)).then(|| self.next += 1)
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), SyntaxError> {
        let found = self.peek();
        self.accept(sign)
            .ok_or_else(|| self.syntax_error(format!("expected {sign:?}, found {}", found.describe_token())))
    }

    fn parse_expression(&mut self) -> Result<SyntaxTree, SyntaxError> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.syntax_error(format!("nests deeper than {MAX_NESTING} levels")));
        }
        let mut syntax = self.parse_or()?;
        if self.accept("?").is_some() {
            let then = self.parse_or()?;
            self.expect(":")?;
            let otherwise = self.parse_expression()?;
            syntax = SyntaxTree::If {
                condition: Box::new(syntax),
                then: Box::new(then),
                otherwise: Box::new(otherwise),
            };
        }
        self.nesting -= 1;
        Ok(syntax)
    }

    fn parse_or(&mut self) -> Result<SyntaxTree, SyntaxError> {
        self.parse_chain(Self::parse_and, |sign| match sign {
            "||" => Some(|left, right| SyntaxTree::Or(Box::new(left), Box::new(right))),
            _ => None,
        })
    }

    fn parse_and(&mut self) -> Result<SyntaxTree, SyntaxError> {
        self.parse_chain(Self::parse_relation, |sign| match sign {
            "&&" => Some(|left, right| SyntaxTree::And(Box::new(left), Box::new(right))),
            _ => None,
        })
    }

    fn parse_relation(&mut self) -> Result<SyntaxTree, SyntaxError> {
        self.parse_chain(Self::parse_sum, |sign| match sign {
            "==" => Some(|left, right| binary_syntax(BinaryOperator::Equal, left, right)),
            "!=" => Some(|left, right| binary_syntax(BinaryOperator::NotEqual, left, right)),
            "<" => Some(|left, right| binary_syntax(BinaryOperator::Less, left, right)),
            "<=" => Some(|left, right| binary_syntax(BinaryOperator::LessEqual, left, right)),
            ">" => Some(|left, right| binary_syntax(BinaryOperator::Greater, left, right)),
            ">=" => Some(|left, right| binary_syntax(BinaryOperator::GreaterEqual, left, right)),
            "in" => Some(|left, right| binary_syntax(BinaryOperator::In, left, right)),
            _ => None,
        })
    }

    fn parse_sum(&mut self) -> Result<SyntaxTree, SyntaxError> {
        self.parse_chain(Self::parse_product, |sign| match sign {
            "+" => Some(|left, right| binary_syntax(BinaryOperator::Add, left, right)),
            "-" => Some(|left, right| binary_syntax(BinaryOperator::Subtract, left, right)),
            _ => None,
        })
    }

    fn parse_product(&mut self) -> Result<SyntaxTree, SyntaxError> {
        self.parse_chain(Self::parse_unary, |sign| match sign {
            "*" => Some(|left, right| binary_syntax(BinaryOperator::Multiply, left, right)),
            "/" => Some(|left, right| binary_syntax(BinaryOperator::Divide, left, right)),
            "%" => Some(|left, right| binary_syntax(BinaryOperator::Modulo, left, right)),
            _ => None,
        })
    }

    /// Operands of one precedence, left-associative.
    fn parse_chain(
        &mut self,
        operand: fn(&mut Self) -> Result<SyntaxTree, SyntaxError>,
        join: fn(&str) -> Option<OperandJoin>,
    ) -> Result<SyntaxTree, SyntaxError> {
        let mut syntax = operand(self)?;
        let mut length = 0;
        while let CelToken::Sign(sign) = self.peek()
            && let Some(join) = join(sign)
        {
            length += 1;
            if length > MAX_CHAIN {
                return Err(self.syntax_error(format!("more than {MAX_CHAIN} operators in a row")));
            }
            self.next += 1;
            syntax = join(syntax, operand(self)?);
        }
        Ok(syntax)
    }

    /// CEL allows repeated `!` or repeated `-`, but not a mixture.
    fn parse_unary(&mut self) -> Result<SyntaxTree, SyntaxError> {
        let mut bangs = 0;
        while self.accept("!").is_some() {
            bangs += 1;
        }
        if bangs > 0 {
            let mut syntax = self.parse_member()?;
            self.check_chain_length(bangs)?;
            for _ in 0..bangs {
                syntax = SyntaxTree::Not(Box::new(syntax));
            }
            return Ok(syntax);
        }
        let mut minuses: usize = 0;
        while self.accept("-").is_some() {
            minuses += 1;
        }
        self.check_chain_length(minuses)?;
        let negative = match (minuses, self.peek()) {
            (0, CelToken::IntBeyond) => return Err(self.syntax_error("a number is too large")),
            (0, _) => None,
            (_, CelToken::Int(int)) => Some(CelValue::Int(-int)),
            (_, CelToken::IntBeyond) => Some(CelValue::Int(i64::MIN)),
            (_, CelToken::Double(double)) => Some(CelValue::Double(-double)),
            (_, CelToken::Ident(_) | CelToken::Text(_) | CelToken::Sign(_) | CelToken::End) => None,
        };
        // The last minus before a number is part of the literal, so that -9223372036854775808 is valid.
        let mut syntax = match negative {
            Some(value) => {
                self.next += 1;
                minuses -= 1;
                self.parse_member_chain(SyntaxTree::Literal(value))?
            }
            None => self.parse_member()?,
        };
        for _ in 0..minuses {
            syntax = SyntaxTree::Negate(Box::new(syntax));
        }
        Ok(syntax)
    }

    fn check_chain_length(&self, run: usize) -> Result<(), SyntaxError> {
        if run > MAX_CHAIN {
            return Err(self.syntax_error(format!("more than {MAX_CHAIN} operators in a row")));
        }
        Ok(())
    }

    fn parse_member(&mut self) -> Result<SyntaxTree, SyntaxError> {
        let primary = self.parse_primary()?;
        self.parse_member_chain(primary)
    }

    fn parse_member_chain(&mut self, mut syntax: SyntaxTree) -> Result<SyntaxTree, SyntaxError> {
        for length in 0.. {
            self.check_chain_length(length)?;
            if self.accept(".").is_some() {
                let CelToken::Ident(name) = self.take() else {
                    self.next -= 1;
                    return Err(self.syntax_error("expected a field after \".\""));
                };
                syntax = if self.accept("(").is_some() {
                    let arguments = self.parse_list(")")?;
                    SyntaxTree::Call { function: name.clone(), target: Some(Box::new(syntax)), arguments }
                } else {
                    SyntaxTree::Select { operand: Box::new(syntax), field: name.clone() }
                };
            } else if self.accept("[").is_some() {
                let index = self.parse_expression()?;
                self.expect("]")?;
                syntax = SyntaxTree::Index { operand: Box::new(syntax), index: Box::new(index) };
            } else {
                break;
            }
        }
        Ok(syntax)
    }

    fn parse_primary(&mut self) -> Result<SyntaxTree, SyntaxError> {
        let literal = match self.take() {
            CelToken::Int(int) => CelValue::Int(*int),
            CelToken::Double(double) => CelValue::Double(*double),
            CelToken::Text(text) => CelValue::text(text),
            CelToken::Ident(name) => match name.as_str() {
                "true" => CelValue::Bool(true),
                "false" => CelValue::Bool(false),
                "null" => CelValue::Null,
                word if RESERVED.contains(&word) => {
                    self.next -= 1;
                    return Err(self.syntax_error(format!("{word:?} is a reserved word")));
                }
                _ if self.accept("(").is_some() => {
                    let arguments = self.parse_list(")")?;
                    return Ok(SyntaxTree::Call { function: name.clone(), target: None, arguments });
                }
                _ if *self.peek() == CelToken::Sign("{") => {
                    return Err(self.syntax_error("messages are not supported"));
                }
                _ => return Ok(SyntaxTree::Ident(name.clone())),
            },
            CelToken::Sign("(") => {
                let inside = self.parse_expression()?;
                self.expect(")")?;
                return Ok(inside);
            }
            CelToken::Sign("[") => return Ok(SyntaxTree::List(self.parse_list("]")?)),
            CelToken::Sign("{") => return self.parse_map(),
            other @ (CelToken::Sign(_) | CelToken::IntBeyond | CelToken::End) => {
                self.next -= 1;
                return Err(self.syntax_error(format!("expected a value, found {}", other.describe_token())));
            }
        };
        Ok(SyntaxTree::Literal(literal))
    }

    /// Expressions up to `close`; a comma may follow the last one.
    fn parse_list(&mut self, close: &'static str) -> Result<Vec<SyntaxTree>, SyntaxError> {
        let mut items = Vec::new();
        while self.accept(close).is_none() {
            items.push(self.parse_expression()?);
            if self.accept(",").is_none() {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }

    fn parse_map(&mut self) -> Result<SyntaxTree, SyntaxError> {
        let mut entries = Vec::new();
        while self.accept("}").is_none() {
            let key = self.parse_expression()?;
            self.expect(":")?;
            entries.push((key, self.parse_expression()?));
            if self.accept(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        Ok(SyntaxTree::Map(entries))
    }
}

fn binary_syntax(operator: BinaryOperator, left: SyntaxTree, right: SyntaxTree) -> SyntaxTree {
    SyntaxTree::Binary { operator, left: Box::new(left), right: Box::new(right) }
}

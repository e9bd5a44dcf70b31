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

use super::Value;
use super::lexer::{Placed, SyntaxError, Token, tokens};
use super::program::Binary;
use super::syntax::Syntax;

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
pub(super) fn parse(source: &str) -> Result<Syntax, String> {
    if source.trim().is_empty() {
        return Err("is an empty expression".to_owned());
    }
    if source.len() > MAX_SOURCE {
        return Err(format!("is {} bytes long, at most {MAX_SOURCE} are allowed", source.len()));
    }
    let parsed = tokens(source).and_then(|tokens| {
        let mut parser = Parser { tokens: &tokens, next: 0, nesting: 0 };
        let syntax = parser.expression()?;
        let rest = parser.peek();
        if *rest != Token::End {
            return Err(parser.wrong(format!("unexpected {}", rest.shown())));
        }
        Ok(syntax)
    });
    parsed.map_err(|error| {
        let column = source.get(..error.at).map_or(0, |before| before.chars().count()) + 1;
        format!("{} (at column {column})", error.message)
    })
}

/// Combines two operands into one expression.
type Join = fn(Syntax, Syntax) -> Syntax;

struct Parser<'t> {
    /// Ends with [`Token::End`], which is never consumed.
    tokens: &'t [Placed],
    next: usize,
    nesting: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> &'t Token {
        self.tokens.get(self.next).map_or(&Token::End, |placed| &placed.token)
    }

    fn take(&mut self) -> &'t Token {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn wrong(&self, message: impl Into<String>) -> SyntaxError {
        let placed = self.tokens.get(self.next).or(self.tokens.last());
        SyntaxError { at: placed.map_or(0, |placed| placed.at), message: message.into() }
    }

    fn accept(&mut self, sign: &'static str) -> Option<()> {
        (*self.peek() == Token::Sign(sign)).then(|| self.next += 1)
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), SyntaxError> {
        let found = self.peek();
        self.accept(sign).ok_or_else(|| self.wrong(format!("expected {sign:?}, found {}", found.shown())))
    }

    fn expression(&mut self) -> Result<Syntax, SyntaxError> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.wrong(format!("nests deeper than {MAX_NESTING} levels")));
        }
        let mut syntax = self.or()?;
        if self.accept("?").is_some() {
            let then = self.or()?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            syntax = Syntax::If {
                condition: Box::new(syntax),
                then: Box::new(then),
                otherwise: Box::new(otherwise),
            };
        }
        self.nesting -= 1;
        Ok(syntax)
    }

    fn or(&mut self) -> Result<Syntax, SyntaxError> {
        self.chain(Self::and, |sign| match sign {
            "||" => Some(|left, right| Syntax::Or(Box::new(left), Box::new(right))),
            _ => None,
        })
    }

    fn and(&mut self) -> Result<Syntax, SyntaxError> {
        self.chain(Self::relation, |sign| match sign {
            "&&" => Some(|left, right| Syntax::And(Box::new(left), Box::new(right))),
            _ => None,
        })
    }

    fn relation(&mut self) -> Result<Syntax, SyntaxError> {
        self.chain(Self::sum, |sign| match sign {
            "==" => Some(|left, right| binary(Binary::Equal, left, right)),
            "!=" => Some(|left, right| binary(Binary::NotEqual, left, right)),
            "<" => Some(|left, right| binary(Binary::Less, left, right)),
            "<=" => Some(|left, right| binary(Binary::LessEqual, left, right)),
            ">" => Some(|left, right| binary(Binary::Greater, left, right)),
            ">=" => Some(|left, right| binary(Binary::GreaterEqual, left, right)),
            "in" => Some(|left, right| binary(Binary::In, left, right)),
            _ => None,
        })
    }

    fn sum(&mut self) -> Result<Syntax, SyntaxError> {
        self.chain(Self::product, |sign| match sign {
            "+" => Some(|left, right| binary(Binary::Add, left, right)),
            "-" => Some(|left, right| binary(Binary::Subtract, left, right)),
            _ => None,
        })
    }

    fn product(&mut self) -> Result<Syntax, SyntaxError> {
        self.chain(Self::unary, |sign| match sign {
            "*" => Some(|left, right| binary(Binary::Multiply, left, right)),
            "/" => Some(|left, right| binary(Binary::Divide, left, right)),
            "%" => Some(|left, right| binary(Binary::Modulo, left, right)),
            _ => None,
        })
    }

    /// Operands of one precedence, left-associative.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<Syntax, SyntaxError>,
        join: fn(&str) -> Option<Join>,
    ) -> Result<Syntax, SyntaxError> {
        let mut syntax = operand(self)?;
        let mut length = 0;
        while let Token::Sign(sign) = self.peek()
            && let Some(join) = join(sign)
        {
            length += 1;
            if length > MAX_CHAIN {
                return Err(self.wrong(format!("more than {MAX_CHAIN} operators in a row")));
            }
            self.next += 1;
            syntax = join(syntax, operand(self)?);
        }
        Ok(syntax)
    }

    /// CEL allows repeated `!` or repeated `-`, but not a mixture.
    fn unary(&mut self) -> Result<Syntax, SyntaxError> {
        let mut bangs = 0;
        while self.accept("!").is_some() {
            bangs += 1;
        }
        if bangs > 0 {
            let mut syntax = self.member()?;
            self.short(bangs)?;
            for _ in 0..bangs {
                syntax = Syntax::Not(Box::new(syntax));
            }
            return Ok(syntax);
        }
        let mut minuses: usize = 0;
        while self.accept("-").is_some() {
            minuses += 1;
        }
        self.short(minuses)?;
        let negative = match (minuses, self.peek()) {
            (0, Token::IntBeyond) => return Err(self.wrong("a number is too large")),
            (0, _) => None,
            (_, Token::Int(int)) => Some(Value::Int(-int)),
            (_, Token::IntBeyond) => Some(Value::Int(i64::MIN)),
            (_, Token::Double(double)) => Some(Value::Double(-double)),
            (_, Token::Ident(_) | Token::Text(_) | Token::Sign(_) | Token::End) => None,
        };
        // The last minus before a number is part of the literal, so that -9223372036854775808 is valid.
        let mut syntax = match negative {
            Some(value) => {
                self.next += 1;
                minuses -= 1;
                self.members(Syntax::Literal(value))?
            }
            None => self.member()?,
        };
        for _ in 0..minuses {
            syntax = Syntax::Negate(Box::new(syntax));
        }
        Ok(syntax)
    }

    fn short(&self, run: usize) -> Result<(), SyntaxError> {
        if run > MAX_CHAIN {
            return Err(self.wrong(format!("more than {MAX_CHAIN} operators in a row")));
        }
        Ok(())
    }

    fn member(&mut self) -> Result<Syntax, SyntaxError> {
        let primary = self.primary()?;
        self.members(primary)
    }

    fn members(&mut self, mut syntax: Syntax) -> Result<Syntax, SyntaxError> {
        for length in 0.. {
            self.short(length)?;
            if self.accept(".").is_some() {
                let Token::Ident(name) = self.take() else {
                    self.next -= 1;
                    return Err(self.wrong("expected a field after \".\""));
                };
                syntax = if self.accept("(").is_some() {
                    let arguments = self.list(")")?;
                    Syntax::Call { function: name.clone(), target: Some(Box::new(syntax)), arguments }
                } else {
                    Syntax::Select { operand: Box::new(syntax), field: name.clone() }
                };
            } else if self.accept("[").is_some() {
                let index = self.expression()?;
                self.expect("]")?;
                syntax = Syntax::Index { operand: Box::new(syntax), index: Box::new(index) };
            } else {
                break;
            }
        }
        Ok(syntax)
    }

    fn primary(&mut self) -> Result<Syntax, SyntaxError> {
        let literal = match self.take() {
            Token::Int(int) => Value::Int(*int),
            Token::Double(double) => Value::Double(*double),
            Token::Text(text) => Value::text(text),
            Token::Ident(name) => match name.as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                "null" => Value::Null,
                word if RESERVED.contains(&word) => {
                    self.next -= 1;
                    return Err(self.wrong(format!("{word:?} is a reserved word")));
                }
                _ if self.accept("(").is_some() => {
                    let arguments = self.list(")")?;
                    return Ok(Syntax::Call { function: name.clone(), target: None, arguments });
                }
                _ if *self.peek() == Token::Sign("{") => {
                    return Err(self.wrong("messages are not supported"));
                }
                _ => return Ok(Syntax::Ident(name.clone())),
            },
            Token::Sign("(") => {
                let inside = self.expression()?;
                self.expect(")")?;
                return Ok(inside);
            }
            Token::Sign("[") => return Ok(Syntax::List(self.list("]")?)),
            Token::Sign("{") => return self.map(),
            other @ (Token::Sign(_) | Token::IntBeyond | Token::End) => {
                self.next -= 1;
                return Err(self.wrong(format!("expected a value, found {}", other.shown())));
            }
        };
        Ok(Syntax::Literal(literal))
    }

    /// Expressions up to `close`; a comma may follow the last one.
    fn list(&mut self, close: &'static str) -> Result<Vec<Syntax>, SyntaxError> {
        let mut items = Vec::new();
        while self.accept(close).is_none() {
            items.push(self.expression()?);
            if self.accept(",").is_none() {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }

    fn map(&mut self) -> Result<Syntax, SyntaxError> {
        let mut entries = Vec::new();
        while self.accept("}").is_none() {
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
            if self.accept(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        Ok(Syntax::Map(entries))
    }
}

fn binary(operator: Binary, left: Syntax, right: Syntax) -> Syntax {
    Syntax::Binary { operator, left: Box::new(left), right: Box::new(right) }
}

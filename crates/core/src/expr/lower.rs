//! From the library's syntax tree to a [`Program`]: names are resolved, macros become loops, paths
//! become slots, and everything that cannot work is reported at once.

use std::sync::Arc;

use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::parser::Expression;
use regex::RegexBuilder;

use super::Value;
use super::function::{Call, Function};
use super::program::{Binary, Macro, Node, Program, Root, Slot, Step, Vocabulary, Want};
use crate::definition::did_you_mean;

/// How deep an expression may nest, operators included; evaluation recurses that deep.
const MAX_DEPTH: usize = 96;
/// How many different paths one expression may mention: each may cost one scan of the payload.
const MAX_SLOTS: usize = 64;
/// Bounds the memory that one compiled pattern may take.
const MAX_PATTERN_BYTES: usize = 64 * 1024;

pub(super) fn lower(parsed: &Expression, vocabulary: Vocabulary<'_>) -> Result<Program, Vec<String>> {
    let mut lowering = Lowering {
        vocabulary,
        slots: Vec::new(),
        locals: Vec::new(),
        most_locals: 0,
        depth: 0,
        problems: Vec::new(),
    };
    let node = lowering.node(parsed);
    if lowering.slots.len() > MAX_SLOTS {
        lowering.problem(format!("refers to more than {MAX_SLOTS} different values"));
    }
    if lowering.problems.is_empty() {
        Ok(Program { node, slots: lowering.slots, locals: lowering.most_locals })
    } else {
        lowering.problems.dedup();
        Err(lowering.problems)
    }
}

struct Lowering<'a> {
    vocabulary: Vocabulary<'a>,
    slots: Vec<Slot>,
    /// Variables of the comprehensions around this point.
    locals: Vec<String>,
    most_locals: usize,
    depth: usize,
    problems: Vec<String>,
}

impl Lowering<'_> {
    /// Reports, and stands in for what cannot be built: the program is not used then.
    fn problem(&mut self, message: impl Into<String>) -> Node {
        self.problems.push(message.into());
        Node::Literal(Value::Null)
    }

    fn node(&mut self, expression: &Expression) -> Node {
        self.depth += 1;
        let node = if self.depth > MAX_DEPTH {
            if self.problems.is_empty() {
                self.problem(format!("nests deeper than {MAX_DEPTH} levels"));
            }
            Node::Literal(Value::Null)
        } else {
            self.expression(&expression.expr)
        };
        self.depth -= 1;
        node
    }

    fn boxed(&mut self, expression: &Expression) -> Box<Node> {
        Box::new(self.node(expression))
    }

    fn expression(&mut self, expr: &Expr) -> Node {
        if let Some((root, path)) = self.path(expr) {
            return self.slot(root, path, Want::Value);
        }
        match expr {
            Expr::Literal(literal) => self.literal(literal),
            Expr::Ident(name) => self.identifier(name),
            Expr::Select(select) if select.test => self.has(&select.operand, &select.field),
            Expr::Select(select) => {
                Node::Field { operand: self.boxed(&select.operand), field: select.field.clone() }
            }
            Expr::List(list) => Node::List(list.elements.iter().map(|item| self.node(item)).collect()),
            Expr::Map(map) => {
                let mut entries = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    match &entry.expr {
                        EntryExpr::MapEntry(entry) => {
                            entries.push((self.node(&entry.key), self.node(&entry.value)));
                        }
                        EntryExpr::StructField(_) => return self.problem("messages are not supported"),
                    }
                }
                Node::Map(entries)
            }
            Expr::Call(call) => self.call(call),
            Expr::Struct(_) => self.problem("messages are not supported"),
            Expr::Comprehension(_) | Expr::Unspecified => self.problem("cannot be parsed"),
        }
    }

    fn literal(&mut self, literal: &LiteralValue) -> Node {
        let value = match literal {
            LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
            LiteralValue::Int(value) => Value::Int(*value.inner()),
            LiteralValue::Double(value) if !value.inner().is_finite() => {
                return self.problem("a number is too large");
            }
            LiteralValue::Double(value) => Value::Double(*value.inner()),
            LiteralValue::String(value) => Value::text(value.inner()),
            LiteralValue::Null => Value::Null,
            LiteralValue::UInt(_) => {
                return self.problem("unsigned numbers are not supported: leave out the u");
            }
            LiteralValue::Bytes(_) => return self.problem("bytes are not supported: leave out the b"),
        };
        Node::Literal(value)
    }

    fn identifier(&mut self, name: &str) -> Node {
        if let Some(local) = self.local(name) {
            return Node::Local(local);
        }
        let mut known: Vec<&str> = vec!["context", "event", "now"];
        match self.vocabulary {
            Vocabulary::Decision if name == "results" => {
                return self.problem("results are known in actions only");
            }
            Vocabulary::Decision => {}
            Vocabulary::Action { .. } => known.push("results"),
        }
        let hint = did_you_mean(name, known.iter().copied());
        self.problem(format!("unknown name {name:?}{hint}: expressions begin with {}", known.join(", ")))
    }

    fn local(&self, name: &str) -> Option<usize> {
        self.locals.iter().rposition(|local| local == name)
    }

    /// The static path that an expression spells, if it is one.
    fn path(&self, expr: &Expr) -> Option<(Root, Vec<Step>)> {
        match expr {
            Expr::Ident(name) if self.local(name).is_none() => self.root(name).map(|root| (root, Vec::new())),
            Expr::Select(select) if !select.test => {
                let (root, mut path) = self.path(&select.operand.expr)?;
                path.push(Step::Field(select.field.clone()));
                Some((root, path))
            }
            Expr::Call(call) if call.func_name == operators::INDEX => {
                let [operand, index] = &call.args[..] else { return None };
                let (root, mut path) = self.path(&operand.expr)?;
                path.push(match &index.expr {
                    Expr::Literal(LiteralValue::String(field)) => Step::Field(field.inner().to_owned()),
                    Expr::Literal(LiteralValue::Int(index)) => Step::Index(*index.inner()),
                    _ => return None,
                });
                Some((root, path))
            }
            _ => None,
        }
    }

    fn root(&self, name: &str) -> Option<Root> {
        match (name, self.vocabulary) {
            ("context", _) => Some(Root::Context),
            ("event", _) => Some(Root::Event),
            ("now", _) => Some(Root::Now),
            ("results", Vocabulary::Action { .. }) => Some(Root::Results),
            (_, _) => None,
        }
    }

    fn slot(&mut self, root: Root, path: Vec<Step>, want: Want) -> Node {
        match (root, path.first()) {
            (Root::Event, Some(Step::Field(field))) => match field.as_str() {
                "payload" => {}
                "name" | "time" if path.len() == 1 => {}
                "name" | "time" => return self.problem(format!("event.{field} has no parts")),
                other => {
                    let hint = did_you_mean(other, ["name", "payload", "time"].into_iter());
                    return self.problem(format!(
                        "there is no event.{other}{hint}: an event has name, payload and time"
                    ));
                }
            },
            (Root::Results, Some(Step::Field(field))) => {
                if let Vocabulary::Action { needs } = self.vocabulary
                    && !needs.iter().any(|name| name.as_str() == field)
                {
                    let hint = did_you_mean(field, needs.iter().map(|name| name.as_str()));
                    return self.problem(format!("results.{field} is not among the action's needs{hint}"));
                }
            }
            (Root::Now, Some(_)) => return self.problem("now has no parts"),
            (Root::Event | Root::Results | Root::Context, Some(Step::Index(_))) => {
                return self.problem("context, event and results have names, not numbers");
            }
            (Root::Context, Some(Step::Field(_))) | (_, None) => {}
        }
        let slot = Slot { root, path, want };
        let known = self.slots.iter().position(|other| *other == slot);
        Node::Slot(known.unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        }))
    }

    fn call(&mut self, call: &CallExpr) -> Node {
        match (call.func_name.as_str(), &call.args[..], &call.target) {
            (operators::LOGICAL_AND, [a, b], None) => Node::And(self.boxed(a), self.boxed(b)),
            (operators::LOGICAL_OR, [a, b], None) => Node::Or(self.boxed(a), self.boxed(b)),
            (operators::LOGICAL_NOT, [a], None) => Node::Not(self.boxed(a)),
            (operators::NEGATE, [a], None) => Node::Negate(self.boxed(a)),
            (operators::CONDITIONAL, [a, b, c], None) => {
                Node::If { condition: self.boxed(a), then: self.boxed(b), otherwise: self.boxed(c) }
            }
            (operators::INDEX, [a, b], None) => Node::Index { operand: self.boxed(a), index: self.boxed(b) },
            ("has", [field], None) => match &field.expr {
                Expr::Select(select) if !select.test => self.has(&select.operand, &select.field),
                _ => self.problem("has() takes a field, as in has(context.total)"),
            },
            (name, [a, b], None) if binary(name).is_some() => match binary(name) {
                Some(operator) => Node::Binary { operator, left: self.boxed(a), right: self.boxed(b) },
                None => self.problem("cannot be parsed"),
            },
            (name, args, Some(range)) if macro_named(name).is_some() && args.len() >= 2 => {
                match macro_named(name) {
                    Some(macro_) => self.each(macro_, range, args),
                    None => self.problem("cannot be parsed"),
                }
            }
            (name, args, target) => self.function(name, target.as_deref(), args),
        }
    }

    fn has(&mut self, operand: &Expression, field: &str) -> Node {
        match self.path(&operand.expr) {
            Some((root, mut path)) => {
                path.push(Step::Field(field.to_owned()));
                self.slot(root, path, Want::Presence)
            }
            None => Node::Has { operand: self.boxed(operand), field: field.to_owned() },
        }
    }

    fn each(&mut self, macro_: Macro, range: &Expression, args: &[Expression]) -> Node {
        let range = self.boxed(range);
        let Some(Expr::Ident(variable)) = args.first().map(|arg| &arg.expr) else {
            return self.problem("the first argument of a comprehension is a variable name");
        };
        if ["context", "event", "now", "results"].contains(&variable.as_str()) {
            return self.problem(format!("a variable may not be called {variable}"));
        }
        let local = self.locals.len();
        self.locals.push(variable.clone());
        self.most_locals = self.most_locals.max(self.locals.len());
        let node = match (macro_, &args[1..]) {
            (_, [body]) => Node::Each { macro_, range, local, body: self.boxed(body) },
            (Macro::Map, [keep, body]) => {
                Node::MapWhere { range, local, keep: self.boxed(keep), body: self.boxed(body) }
            }
            (_, _) => self.problem("a comprehension has too many arguments"),
        };
        self.locals.pop();
        node
    }

    fn function(&mut self, name: &str, target: Option<&Expression>, args: &[Expression]) -> Node {
        let call = if target.is_some() { Call::Member } else { Call::Global };
        let arity = args.len() + usize::from(target.is_some());
        let Some(function) = Function::named(name, call) else {
            let hint = did_you_mean(name, Function::names(call));
            return self.problem(format!("unknown function {name}(){hint}"));
        };
        if !function.accepts(arity) {
            return self.problem(format!("{name}() does not take {} arguments", args.len()));
        }
        if let (Function::Matches, Some(Expr::Literal(LiteralValue::String(pattern)))) =
            (function, args.last().map(|arg| &arg.expr))
        {
            let Some(operand) = target.or(args.first()) else {
                return self.problem("matches() takes a text and a pattern");
            };
            let built = RegexBuilder::new(pattern.inner()).size_limit(MAX_PATTERN_BYTES).build();
            return match built {
                Ok(pattern) => Node::Matches { operand: self.boxed(operand), pattern: Arc::new(pattern) },
                Err(_) => self.problem(format!("{:?} is not a usable pattern", pattern.inner())),
            };
        }
        if function == Function::Matches {
            return self.problem("the pattern of matches() must be a literal text");
        }
        let arguments = target.into_iter().chain(args).map(|arg| self.node(arg)).collect();
        Node::Call { function, arguments }
    }
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        operators::ADD => Binary::Add,
        operators::SUBSTRACT => Binary::Subtract,
        operators::MULTIPLY => Binary::Multiply,
        operators::DIVIDE => Binary::Divide,
        operators::MODULO => Binary::Modulo,
        operators::EQUALS => Binary::Equal,
        operators::NOT_EQUALS => Binary::NotEqual,
        operators::LESS => Binary::Less,
        operators::LESS_EQUALS => Binary::LessEqual,
        operators::GREATER => Binary::Greater,
        operators::GREATER_EQUALS => Binary::GreaterEqual,
        operators::IN => Binary::In,
        _ => return None,
    })
}

fn macro_named(name: &str) -> Option<Macro> {
    Some(match name {
        "all" => Macro::All,
        "exists" => Macro::Exists,
        "exists_one" => Macro::ExistsOne,
        "filter" => Macro::Filter,
        "map" => Macro::Map,
        _ => return None,
    })
}

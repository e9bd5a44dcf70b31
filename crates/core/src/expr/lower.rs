//! Lowering of the syntax tree to a [`Program`]: resolves names, expands macros into loops, turns paths into
//! slots, and reports all problems of the expression at once.

use super::Value;
use super::function::{Call, Function};
use super::pattern::Pattern;
use super::program::{Macro, Node, Program, Root, Secrets, Slot, Step, Vocabulary, Want};
use super::syntax::Syntax;
use crate::definition::did_you_mean;

/// Maximum nesting of an expression, operators included; it bounds the recursion of the evaluation.
const MAX_DEPTH: usize = 128;
/// Maximum number of different paths in one expression: each may cost one scan of the payload.
const MAX_SLOTS: usize = 64;

pub(super) fn lower(parsed: &Syntax, vocabulary: Vocabulary<'_>) -> Result<Program, Vec<String>> {
    let mut lowering = Lowering {
        vocabulary,
        slots: Vec::new(),
        locals: Vec::new(),
        most_locals: 0,
        depth: 0,
        problems: Vec::new(),
        pattern_weight: 0,
        compile_units: 0,
    };
    let node = lowering.node(parsed);
    if lowering.slots.len() > MAX_SLOTS {
        lowering.problem(format!("refers to more than {MAX_SLOTS} different values"));
    }
    if lowering.problems.is_empty() {
        Ok(Program {
            node,
            slots: lowering.slots,
            locals: lowering.most_locals,
            pattern_weight: lowering.pattern_weight,
            compile_units: lowering.compile_units,
        })
    } else {
        lowering.problems.dedup();
        Err(lowering.problems)
    }
}

struct Lowering<'a> {
    vocabulary: Vocabulary<'a>,
    slots: Vec<Slot>,
    /// Variables of the enclosing comprehensions.
    locals: Vec<String>,
    most_locals: usize,
    depth: usize,
    problems: Vec<String>,
    pattern_weight: usize,
    compile_units: u64,
}

impl Lowering<'_> {
    /// Reports a problem and returns a placeholder node; the program is discarded then.
    fn problem(&mut self, message: impl Into<String>) -> Node {
        self.problems.push(message.into());
        Node::Literal(Value::Null)
    }

    fn node(&mut self, expression: &Syntax) -> Node {
        self.depth += 1;
        let node = if self.depth > MAX_DEPTH {
            if self.problems.is_empty() {
                self.problem(format!("nests deeper than {MAX_DEPTH} levels"));
            }
            Node::Literal(Value::Null)
        } else {
            self.expression(expression)
        };
        self.depth -= 1;
        node
    }

    fn boxed(&mut self, expression: &Syntax) -> Box<Node> {
        Box::new(self.node(expression))
    }

    fn expression(&mut self, syntax: &Syntax) -> Node {
        if let Some((root, path)) = self.path(syntax) {
            return self.slot(root, path, Want::Value);
        }
        match syntax {
            Syntax::Literal(value) => Node::Literal(value.clone()),
            Syntax::Ident(name) => self.identifier(name),
            Syntax::Select { operand, field } => {
                Node::Field { operand: self.boxed(operand), field: field.clone() }
            }
            Syntax::Index { operand, index } => {
                Node::Index { operand: self.boxed(operand), index: self.boxed(index) }
            }
            Syntax::Not(operand) => Node::Not(self.boxed(operand)),
            Syntax::Negate(operand) => Node::Negate(self.boxed(operand)),
            Syntax::And(left, right) => Node::And(self.boxed(left), self.boxed(right)),
            Syntax::Or(left, right) => Node::Or(self.boxed(left), self.boxed(right)),
            Syntax::If { condition, then, otherwise } => Node::If {
                condition: self.boxed(condition),
                then: self.boxed(then),
                otherwise: self.boxed(otherwise),
            },
            Syntax::Binary { operator, left, right } => {
                Node::Binary { operator: *operator, left: self.boxed(left), right: self.boxed(right) }
            }
            Syntax::List(items) => Node::List(items.iter().map(|item| self.node(item)).collect()),
            Syntax::Map(entries) => {
                Node::Map(entries.iter().map(|(key, value)| (self.node(key), self.node(value))).collect())
            }
            Syntax::Call { function, target, arguments } => self.call(function, target.as_deref(), arguments),
        }
    }

    fn identifier(&mut self, name: &str) -> Node {
        if let Some(local) = self.local(name) {
            return Node::Local(local);
        }
        let known: &[&str] = match self.vocabulary {
            Vocabulary::Decision if name == "results" => {
                return self.problem("results are available in actions only");
            }
            Vocabulary::Decision => &["context", "event", "now"],
            Vocabulary::Action { .. } => &["context", "event", "now", "results"],
            Vocabulary::Context => &["context"],
            Vocabulary::Response => &["response"],
            Vocabulary::Graph { .. } => &["input", "results"],
            Vocabulary::Answer => &["answer", "item", "person"],
        };
        let hint = did_you_mean(name, known.iter().copied());
        self.problem(format!("unknown name {name:?}{hint}: expressions begin with {}", known.join(", ")))
    }

    fn local(&self, name: &str) -> Option<usize> {
        self.locals.iter().rposition(|local| local == name)
    }

    /// The static path, if the expression is one.
    fn path(&self, syntax: &Syntax) -> Option<(Root, Vec<Step>)> {
        match syntax {
            Syntax::Ident(name) if self.local(name).is_none() => {
                self.root(name).map(|root| (root, Vec::new()))
            }
            Syntax::Select { operand, field } => {
                let (root, mut path) = self.path(operand)?;
                path.push(Step::Field(field.clone()));
                Some((root, path))
            }
            Syntax::Index { operand, index } => {
                let (root, mut path) = self.path(operand)?;
                let Syntax::Literal(index) = &**index else { return None };
                path.push(match index {
                    Value::Text(field) => Step::Field(field.as_ref().to_owned()),
                    Value::Int(index) => Step::Index(*index),
                    Value::Null
                    | Value::Bool(_)
                    | Value::Double(_)
                    | Value::List(_)
                    | Value::Map(_)
                    | Value::Time(_)
                    | Value::Span(_) => return None,
                });
                Some((root, path))
            }
            Syntax::Ident(_)
            | Syntax::Literal(_)
            | Syntax::Call { .. }
            | Syntax::Not(_)
            | Syntax::Negate(_)
            | Syntax::And(..)
            | Syntax::Or(..)
            | Syntax::If { .. }
            | Syntax::Binary { .. }
            | Syntax::List(_)
            | Syntax::Map(_) => None,
        }
    }

    fn root(&self, name: &str) -> Option<Root> {
        match (name, self.vocabulary) {
            ("response", Vocabulary::Response) => Some(Root::Response),
            (_, Vocabulary::Response) => None,
            ("input", Vocabulary::Graph { .. }) => Some(Root::Input),
            ("results", Vocabulary::Graph { .. }) => Some(Root::Results),
            (_, Vocabulary::Graph { .. }) => None,
            ("answer", Vocabulary::Answer) => Some(Root::Answer),
            ("item", Vocabulary::Answer) => Some(Root::Item),
            ("person", Vocabulary::Answer) => Some(Root::Person),
            (_, Vocabulary::Answer) => None,
            ("context", _) => Some(Root::Context),
            (_, Vocabulary::Context) => None,
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
            (Root::Results, Some(Step::Field(field))) => match self.vocabulary {
                Vocabulary::Action { needs, secrets: _ } => {
                    if !needs.iter().any(|name| name.as_str() == field) {
                        let hint = did_you_mean(field, needs.iter().map(|name| name.as_str()));
                        return self
                            .problem(format!("results.{field} is not among the action's needs{hint}"));
                    }
                }
                Vocabulary::Graph { parents } => {
                    if !parents.contains(field.as_str()) {
                        let hint = did_you_mean(field, parents.iter().copied());
                        return self.problem(format!("{field:?} is not a parent of this node{hint}"));
                    }
                }
                Vocabulary::Decision | Vocabulary::Context | Vocabulary::Response | Vocabulary::Answer => {}
            },
            (Root::Results, None) if matches!(self.vocabulary, Vocabulary::Graph { .. }) => {
                return self.problem("results must be referenced one by one: results.ID or results[\"ID\"]");
            }
            (Root::Now, Some(_)) => return self.problem("now has no parts"),
            (Root::Response, Some(Step::Field(field))) => match field.as_str() {
                "status" | "headers" | "body" => {}
                other => {
                    let hint = did_you_mean(other, ["status", "headers", "body"].into_iter());
                    return self.problem(format!(
                        "there is no response.{other}{hint}: a response has status, headers and body"
                    ));
                }
            },
            (
                Root::Event | Root::Results | Root::Context | Root::Response | Root::Input,
                Some(Step::Index(_)),
            ) => {
                return self.problem("context, event, results, response and input have names, not numbers");
            }
            (Root::Person, Some(_)) => return self.problem("person is a string and has no parts"),
            (Root::Answer | Root::Item, Some(_))
            | (Root::Context | Root::Input, Some(Step::Field(_)))
            | (_, None) => {}
        }
        let slot = Slot { root, path, want };
        let known = self.slots.iter().position(|other| *other == slot);
        Node::Slot(known.unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        }))
    }

    fn call(&mut self, name: &str, target: Option<&Syntax>, arguments: &[Syntax]) -> Node {
        match (name, arguments, target) {
            ("has", [Syntax::Select { operand, field }], None) => self.has(operand, field),
            ("has", _, None) => self.problem("has() takes a field, as in has(context.total)"),
            (_, [variable, rest @ ..], Some(range)) if !rest.is_empty() => match macro_named(name) {
                Some(macro_) => self.each(macro_, range, variable, rest),
                None => self.function(name, target, arguments),
            },
            (_, _, _) => self.function(name, target, arguments),
        }
    }

    fn has(&mut self, operand: &Syntax, field: &str) -> Node {
        match self.path(operand) {
            Some((root, mut path)) => {
                path.push(Step::Field(field.to_owned()));
                self.slot(root, path, Want::Presence)
            }
            None => Node::Has { operand: self.boxed(operand), field: field.to_owned() },
        }
    }

    fn each(&mut self, macro_: Macro, range: &Syntax, variable: &Syntax, rest: &[Syntax]) -> Node {
        let range = self.boxed(range);
        let Syntax::Ident(variable) = variable else {
            return self.problem("the first argument of a comprehension is a variable name");
        };
        let is_taken = ["context", "event", "now", "results", "response"].contains(&variable.as_str());
        if is_taken || (variable == "input" && self.root(variable).is_some()) {
            return self.problem(format!("a variable may not be called {variable}"));
        }
        let local = self.locals.len();
        self.locals.push(variable.clone());
        self.most_locals = self.most_locals.max(self.locals.len());
        let node = match (macro_, rest) {
            (_, [body]) => Node::Each { macro_, range, local, body: self.boxed(body) },
            (Macro::Map, [keep, body]) => {
                Node::MapWhere { range, local, keep: self.boxed(keep), body: self.boxed(body) }
            }
            (_, _) => self.problem("a comprehension has too many arguments"),
        };
        self.locals.pop();
        node
    }

    fn function(&mut self, name: &str, target: Option<&Syntax>, args: &[Syntax]) -> Node {
        let call = if target.is_some() { Call::Member } else { Call::Global };
        let arity = args.len() + usize::from(target.is_some());
        if name == "secret" && call == Call::Global {
            return self.problem(match self.vocabulary {
                Vocabulary::Action { secrets: Secrets::Allowed, .. } => {
                    "secret(\"name\") must be a whole value, or a whole ${…} of a text"
                }
                Vocabulary::Action { secrets: Secrets::Refused, .. }
                | Vocabulary::Decision
                | Vocabulary::Context
                | Vocabulary::Response
                | Vocabulary::Graph { .. }
                | Vocabulary::Answer => {
                    "a secret would be stored or shown here: only http, webhook and call take secrets"
                }
            });
        }
        let Some(function) = Function::named(name, call) else {
            let hint = did_you_mean(name, Function::names(call));
            return self.problem(format!("unknown function {name}(){hint}"));
        };
        if !function.accepts(arity) {
            return self.problem(format!("{name}() does not take {} arguments", args.len()));
        }
        if let (Function::Matches, Some(Syntax::Literal(Value::Text(pattern)))) = (function, args.last()) {
            let Some(operand) = target.or(args.first()) else {
                return self.problem("matches() takes a string and a pattern");
            };
            return match Pattern::compile(pattern) {
                Some(pattern) => {
                    self.pattern_weight += pattern.weight();
                    self.compile_units += pattern.compile_units();
                    Node::Matches { operand: self.boxed(operand), pattern }
                }
                None => self.problem(format!("{pattern:?} is not a usable pattern")),
            };
        }
        if function == Function::Matches {
            return self.problem("the pattern of matches() must be a string literal");
        }
        let arguments = target.into_iter().chain(args).map(|arg| self.node(arg)).collect();
        Node::Call { function, arguments }
    }
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

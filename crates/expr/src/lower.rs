//! Lowering of the syntax tree to a [`CelProgram`]: resolves names, expands macros into loops, turns paths into
//! slots, and reports all problems of the expression at once.

use millstream_model::suggest::did_you_mean;

use super::CelValue;
use super::function::{CallSyntax, CelFunction};
use super::path::{PathRoot, PathSlot, PathStep, SlotAccess};
use super::pattern::CompiledPattern;
use super::program::{CelMacro, CelProgram, ExprNode, ExprVocabulary, SecretPolicy};
use super::syntax::SyntaxTree;

/// Maximum nesting of an expression, operators included; it bounds the recursion of the evaluation.
const MAX_DEPTH: usize = 128;
/// Maximum number of different paths in one expression: each may cost one scan of the payload.
const MAX_SLOTS: usize = 64;

pub(super) fn lower_syntax(
    parsed: &SyntaxTree,
    vocabulary: ExprVocabulary<'_>,
) -> Result<CelProgram, Vec<String>> {
    let mut lowering = ExprLowering {
        vocabulary,
        slots: Vec::new(),
        locals: Vec::new(),
        most_locals: 0,
        depth: 0,
        problems: Vec::new(),
        pattern_weight: 0,
        compile_units: 0,
    };
    let node = lowering.lower_node(parsed);
    if lowering.slots.len() > MAX_SLOTS {
        lowering.add_problem(format!("refers to more than {MAX_SLOTS} different values"));
    }
    if lowering.problems.is_empty() {
        Ok(CelProgram {
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

struct ExprLowering<'a> {
    vocabulary: ExprVocabulary<'a>,
    slots: Vec<PathSlot>,
    /// Variables of the enclosing comprehensions.
    locals: Vec<String>,
    most_locals: usize,
    depth: usize,
    problems: Vec<String>,
    pattern_weight: usize,
    compile_units: u64,
}

impl ExprLowering<'_> {
    /// Reports a problem and returns a placeholder node; the program is discarded then.
    fn add_problem(&mut self, message: impl Into<String>) -> ExprNode {
        self.problems.push(message.into());
        ExprNode::Literal(CelValue::Null)
    }

    fn lower_node(&mut self, expression: &SyntaxTree) -> ExprNode {
        self.depth += 1;
        let node = if self.depth > MAX_DEPTH {
            if self.problems.is_empty() {
                self.add_problem(format!("nests deeper than {MAX_DEPTH} levels"));
            }
            ExprNode::Literal(CelValue::Null)
        } else {
            self.lower_expression(expression)
        };
        self.depth -= 1;
        node
    }

    fn lower_boxed(&mut self, expression: &SyntaxTree) -> Box<ExprNode> {
        Box::new(self.lower_node(expression))
    }

    fn lower_expression(&mut self, syntax: &SyntaxTree) -> ExprNode {
        if let Some((root, path)) = self.static_path(syntax) {
            return self.slot_node(root, path, SlotAccess::Value);
        }
        match syntax {
            SyntaxTree::Literal(value) => ExprNode::Literal(value.clone()),
            SyntaxTree::Ident(name) => self.lower_identifier(name),
            SyntaxTree::Select { operand, field } => {
                ExprNode::Field { operand: self.lower_boxed(operand), field: field.clone() }
            }
            SyntaxTree::Index { operand, index } => {
                ExprNode::Index { operand: self.lower_boxed(operand), index: self.lower_boxed(index) }
            }
            SyntaxTree::Not(operand) => ExprNode::Not(self.lower_boxed(operand)),
            SyntaxTree::Negate(operand) => ExprNode::Negate(self.lower_boxed(operand)),
            SyntaxTree::And(left, right) => ExprNode::And(self.lower_boxed(left), self.lower_boxed(right)),
            SyntaxTree::Or(left, right) => ExprNode::Or(self.lower_boxed(left), self.lower_boxed(right)),
            SyntaxTree::If { condition, then, otherwise } => ExprNode::If {
                condition: self.lower_boxed(condition),
                then: self.lower_boxed(then),
                otherwise: self.lower_boxed(otherwise),
            },
            SyntaxTree::Binary { operator, left, right } => ExprNode::Binary {
                operator: *operator,
                left: self.lower_boxed(left),
                right: self.lower_boxed(right),
            },
            SyntaxTree::List(items) => {
                ExprNode::List(items.iter().map(|item| self.lower_node(item)).collect())
            }
            SyntaxTree::Map(entries) => ExprNode::Map(
                entries.iter().map(|(key, value)| (self.lower_node(key), self.lower_node(value))).collect(),
            ),
            SyntaxTree::Call { function, target, arguments } => {
                self.lower_call(function, target.as_deref(), arguments)
            }
        }
    }

    fn lower_identifier(&mut self, name: &str) -> ExprNode {
        if let Some(local) = self.find_local(name) {
            return ExprNode::Local(local);
        }
        let known: &[&str] = match self.vocabulary {
            ExprVocabulary::Decision if name == "results" => {
                return self.add_problem("results are available in actions only");
            }
            ExprVocabulary::Decision => &["context", "event", "now"],
            ExprVocabulary::Action { .. } => &["context", "event", "now", "results"],
            ExprVocabulary::Context => &["context"],
            ExprVocabulary::Response => &["response"],
            ExprVocabulary::Graph { .. } => &["input", "results"],
            ExprVocabulary::Answer => &["answer", "item", "person"],
        };
        let hint = did_you_mean(name, known.iter().copied());
        self.add_problem(format!("unknown name {name:?}{hint}: expressions begin with {}", known.join(", ")))
    }

    fn find_local(&self, name: &str) -> Option<usize> {
        self.locals.iter().rposition(|local| local == name)
    }

    /// The static path, if the expression is one.
    fn static_path(&self, syntax: &SyntaxTree) -> Option<(PathRoot, Vec<PathStep>)> {
        match syntax {
            SyntaxTree::Ident(name) if self.find_local(name).is_none() => {
                self.find_root(name).map(|root| (root, Vec::new()))
            }
            SyntaxTree::Select { operand, field } => {
                let (root, mut path) = self.static_path(operand)?;
                path.push(PathStep::Field(field.clone()));
                Some((root, path))
            }
            SyntaxTree::Index { operand, index } => {
                let (root, mut path) = self.static_path(operand)?;
                let SyntaxTree::Literal(index) = &**index else { return None };
                path.push(match index {
                    CelValue::Text(field) => PathStep::Field(field.as_ref().to_owned()),
                    CelValue::Int(index) => PathStep::Index(*index),
                    CelValue::Null
                    | CelValue::Bool(_)
                    | CelValue::Double(_)
                    | CelValue::List(_)
                    | CelValue::Map(_)
                    | CelValue::Time(_)
                    | CelValue::Span(_) => return None,
                });
                Some((root, path))
            }
            SyntaxTree::Ident(_)
            | SyntaxTree::Literal(_)
            | SyntaxTree::Call { .. }
            | SyntaxTree::Not(_)
            | SyntaxTree::Negate(_)
            | SyntaxTree::And(..)
            | SyntaxTree::Or(..)
            | SyntaxTree::If { .. }
            | SyntaxTree::Binary { .. }
            | SyntaxTree::List(_)
            | SyntaxTree::Map(_) => None,
        }
    }

    fn find_root(&self, name: &str) -> Option<PathRoot> {
        match (name, self.vocabulary) {
            ("response", ExprVocabulary::Response) => Some(PathRoot::Response),
            (_, ExprVocabulary::Response) => None,
            ("input", ExprVocabulary::Graph { .. }) => Some(PathRoot::Input),
            ("results", ExprVocabulary::Graph { .. }) => Some(PathRoot::Results),
            (_, ExprVocabulary::Graph { .. }) => None,
            ("answer", ExprVocabulary::Answer) => Some(PathRoot::Answer),
            ("item", ExprVocabulary::Answer) => Some(PathRoot::Item),
            ("person", ExprVocabulary::Answer) => Some(PathRoot::Person),
            (_, ExprVocabulary::Answer) => None,
            ("context", _) => Some(PathRoot::Context),
            (_, ExprVocabulary::Context) => None,
            ("event", _) => Some(PathRoot::Event),
            ("now", _) => Some(PathRoot::Now),
            ("results", ExprVocabulary::Action { .. }) => Some(PathRoot::Results),
            (_, _) => None,
        }
    }

    fn slot_node(&mut self, root: PathRoot, path: Vec<PathStep>, want: SlotAccess) -> ExprNode {
        match (root, path.first()) {
            (PathRoot::Event, Some(PathStep::Field(field))) => match field.as_str() {
                "payload" => {}
                "name" | "time" if path.len() == 1 => {}
                "name" | "time" => return self.add_problem(format!("event.{field} has no parts")),
                other => {
                    let hint = did_you_mean(other, ["name", "payload", "time"].into_iter());
                    return self.add_problem(format!(
                        "there is no event.{other}{hint}: an event has name, payload and time"
                    ));
                }
            },
            (PathRoot::Results, Some(PathStep::Field(field))) => match self.vocabulary {
                ExprVocabulary::Action { needs, secrets: _ } => {
                    if !needs.iter().any(|name| name.as_str() == field) {
                        let hint = did_you_mean(field, needs.iter().map(|name| name.as_str()));
                        return self
                            .add_problem(format!("results.{field} is not among the action's needs{hint}"));
                    }
                }
                ExprVocabulary::Graph { parents } => {
                    if !parents.contains(field.as_str()) {
                        let hint = did_you_mean(field, parents.iter().copied());
                        return self.add_problem(format!("{field:?} is not a parent of this node{hint}"));
                    }
                }
                ExprVocabulary::Decision
                | ExprVocabulary::Context
                | ExprVocabulary::Response
                | ExprVocabulary::Answer => {}
            },
            (PathRoot::Results, None) if matches!(self.vocabulary, ExprVocabulary::Graph { .. }) => {
                return self
                    .add_problem("results must be referenced one by one: results.ID or results[\"ID\"]");
            }
            (PathRoot::Now, Some(_)) => return self.add_problem("now has no parts"),
            (PathRoot::Response, Some(PathStep::Field(field))) => match field.as_str() {
                "status" | "headers" | "body" => {}
                other => {
                    let hint = did_you_mean(other, ["status", "headers", "body"].into_iter());
                    return self.add_problem(format!(
                        "there is no response.{other}{hint}: a response has status, headers and body"
                    ));
                }
            },
            (
                PathRoot::Event
                | PathRoot::Results
                | PathRoot::Context
                | PathRoot::Response
                | PathRoot::Input,
                Some(PathStep::Index(_)),
            ) => {
                return self
                    .add_problem("context, event, results, response and input have names, not numbers");
            }
            (PathRoot::Person, Some(_)) => return self.add_problem("person is a string and has no parts"),
            (PathRoot::Answer | PathRoot::Item, Some(_))
            | (PathRoot::Context | PathRoot::Input, Some(PathStep::Field(_)))
            | (_, None) => {}
        }
        let slot = PathSlot { root, path, want };
        let known = self.slots.iter().position(|other| *other == slot);
        ExprNode::Slot(known.unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        }))
    }

    fn lower_call(&mut self, name: &str, target: Option<&SyntaxTree>, arguments: &[SyntaxTree]) -> ExprNode {
        match (name, arguments, target) {
            ("has", [SyntaxTree::Select { operand, field }], None) => self.lower_has(operand, field),
            ("has", _, None) => self.add_problem("has() takes a field, as in has(context.total)"),
            (_, [variable, rest @ ..], Some(range)) if !rest.is_empty() => match macro_named(name) {
                Some(macro_) => self.lower_comprehension(macro_, range, variable, rest),
                None => self.lower_function(name, target, arguments),
            },
            (_, _, _) => self.lower_function(name, target, arguments),
        }
    }

    fn lower_has(&mut self, operand: &SyntaxTree, field: &str) -> ExprNode {
        match self.static_path(operand) {
            Some((root, mut path)) => {
                path.push(PathStep::Field(field.to_owned()));
                self.slot_node(root, path, SlotAccess::Presence)
            }
            None => ExprNode::Has { operand: self.lower_boxed(operand), field: field.to_owned() },
        }
    }

    fn lower_comprehension(
        &mut self,
        macro_: CelMacro,
        range: &SyntaxTree,
        variable: &SyntaxTree,
        rest: &[SyntaxTree],
    ) -> ExprNode {
        let range = self.lower_boxed(range);
        let SyntaxTree::Ident(variable) = variable else {
            return self.add_problem("the first argument of a comprehension is a variable name");
        };
        let is_taken = ["context", "event", "now", "results", "response"].contains(&variable.as_str());
        if is_taken || (variable == "input" && self.find_root(variable).is_some()) {
            return self.add_problem(format!("a variable may not be called {variable}"));
        }
        let local = self.locals.len();
        self.locals.push(variable.clone());
        self.most_locals = self.most_locals.max(self.locals.len());
        let node = match (macro_, rest) {
            (_, [body]) => ExprNode::Each { macro_, range, local, body: self.lower_boxed(body) },
            (CelMacro::Map, [keep, body]) => ExprNode::MapWhere {
                range,
                local,
                keep: self.lower_boxed(keep),
                body: self.lower_boxed(body),
            },
            (_, _) => self.add_problem("a comprehension has too many arguments"),
        };
        self.locals.pop();
        node
    }

    fn lower_function(&mut self, name: &str, target: Option<&SyntaxTree>, args: &[SyntaxTree]) -> ExprNode {
        let call = if target.is_some() { CallSyntax::Member } else { CallSyntax::Global };
        let arity = args.len() + usize::from(target.is_some());
        if name == "secret" && call == CallSyntax::Global {
            return self.add_problem(match self.vocabulary {
                ExprVocabulary::Action { secrets: SecretPolicy::Allowed, .. } => {
                    "secret(\"name\") must be a whole value, or a whole ${…} of a text"
                }
                ExprVocabulary::Action { secrets: SecretPolicy::Refused, .. }
                | ExprVocabulary::Decision
                | ExprVocabulary::Context
                | ExprVocabulary::Response
                | ExprVocabulary::Graph { .. }
                | ExprVocabulary::Answer => {
                    "a secret would be stored or shown here: only http, webhook and call take secrets"
                }
            });
        }
        let Some(function) = CelFunction::by_name(name, call) else {
            let hint = did_you_mean(name, CelFunction::names_for(call));
            return self.add_problem(format!("unknown function {name}(){hint}"));
        };
        if !function.accepts_arity(arity) {
            return self.add_problem(format!("{name}() does not take {} arguments", args.len()));
        }
        if let (CelFunction::Matches, Some(SyntaxTree::Literal(CelValue::Text(pattern)))) =
            (function, args.last())
        {
            let Some(operand) = target.or(args.first()) else {
                return self.add_problem("matches() takes a string and a pattern");
            };
            return match CompiledPattern::compile(pattern) {
                Some(pattern) => {
                    self.pattern_weight += pattern.memory_weight();
                    self.compile_units += pattern.compile_units();
                    ExprNode::Matches { operand: self.lower_boxed(operand), pattern }
                }
                None => self.add_problem(format!("{pattern:?} is not a usable pattern")),
            };
        }
        if function == CelFunction::Matches {
            return self.add_problem("the pattern of matches() must be a string literal");
        }
        let arguments = target.into_iter().chain(args).map(|arg| self.lower_node(arg)).collect();
        ExprNode::Call { function, arguments }
    }
}

fn macro_named(name: &str) -> Option<CelMacro> {
    Some(match name {
        "all" => CelMacro::All,
        "exists" => CelMacro::Exists,
        "exists_one" => CelMacro::ExistsOne,
        "filter" => CelMacro::Filter,
        "map" => CelMacro::Map,
        _ => return None,
    })
}

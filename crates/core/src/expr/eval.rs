//! The evaluator: computes the value of a program in a scope.
//!
//! `&&` and `||` follow CEL: a side that decides the outcome wins over an error on the other side.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a value of any kind but the wanted one is an error, including future kinds"
)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::budget::Budget;
use super::program::{Macro, Node, Program};
use super::{EvalError, Scope, Value, function, number};

pub(super) fn evaluate(program: &Program, scope: &Scope<'_>) -> Result<Value, EvalError> {
    scope.budget.spend(SETUP)?;
    let mut evaluation = Evaluation {
        program,
        scope,
        slots: vec![None; program.slots.len()],
        locals: Vec::with_capacity(program.locals),
        budget: scope.budget,
    };
    evaluation.node(&program.node)
}

/// Fixed cost of an evaluation, charged before its first node.
const SETUP: u64 = 4;
/// Cost of an error that another value overrides: its message was built and discarded.
const IGNORED_ERROR: u64 = 4;

struct Evaluation<'a> {
    program: &'a Program,
    scope: &'a Scope<'a>,
    /// Each path is fetched at most once.
    slots: Vec<Option<Value>>,
    locals: Vec<Value>,
    budget: &'a Budget<'a>,
}

impl Evaluation<'_> {
    fn node(&mut self, node: &Node) -> Result<Value, EvalError> {
        self.budget.spend(1)?;
        match node {
            Node::Literal(value) => Ok(value.clone()),
            Node::Slot(index) => self.slot(*index),
            Node::Local(index) => {
                self.locals.get(*index).cloned().ok_or_else(|| EvalError::new("a variable has no value"))
            }
            Node::Field { operand, field } => match self.node(operand)? {
                Value::Map(map) => {
                    map.get(field).cloned().ok_or_else(|| EvalError::new(format!("there is no {field}")))
                }
                other => Err(no_field(&other, field)),
            },
            Node::Has { operand, field } => match self.node(operand)? {
                Value::Map(map) => Ok(Value::Bool(map.contains_key(field))),
                Value::Null => Ok(Value::Bool(false)),
                other => Err(no_field(&other, field)),
            },
            Node::Index { operand, index } => {
                let (operand, index) = (self.node(operand)?, self.node(index)?);
                if let Value::Text(key) = &index {
                    self.budget.read_text(key.len())?;
                }
                element(&operand, &index)
            }
            Node::Not(operand) => Ok(Value::Bool(!self.truth(operand)?)),
            Node::Negate(operand) => number::negate(&self.node(operand)?),
            Node::And(left, right) => self.logical(left, right, false),
            Node::Or(left, right) => self.logical(left, right, true),
            Node::If { condition, then, otherwise } => {
                if self.truth(condition)? {
                    self.node(then)
                } else {
                    self.node(otherwise)
                }
            }
            Node::Binary { operator, left, right } => {
                let (left, right) = (self.node(left)?, self.node(right)?);
                number::binary(*operator, &left, &right, self.budget)
            }
            Node::List(items) => {
                self.budget.build_list(items.len())?;
                let items: Result<Vec<_>, _> = items.iter().map(|item| self.node(item)).collect();
                Ok(Value::List(Arc::new(items?)))
            }
            Node::Map(entries) => self.map(entries),
            Node::Call { function, arguments } => {
                let arguments: Result<Vec<_>, _> = arguments.iter().map(|item| self.node(item)).collect();
                function::call(*function, &arguments?, self.budget)
            }
            Node::Matches { operand, pattern } => match self.node(operand)? {
                Value::Text(text) => {
                    self.budget.spend(pattern.search_units(text.len()))?;
                    Ok(Value::Bool(pattern.is_match(&text)))
                }
                other => Err(EvalError::new(format!("matches() needs a string, not {}", other.kind()))),
            },
            Node::Each { macro_, range, local, body } => self.each(*macro_, range, *local, body),
            Node::MapWhere { range, local, keep, body } => {
                let mut mapped = Vec::new();
                for item in self.items(range)? {
                    self.bind(*local, item);
                    if self.truth(keep)? {
                        self.budget.build_list(1)?;
                        mapped.push(self.node(body)?);
                    }
                }
                self.locals.truncate(*local);
                Ok(Value::List(Arc::new(mapped)))
            }
        }
    }

    fn slot(&mut self, index: usize) -> Result<Value, EvalError> {
        if let Some(Some(value)) = self.slots.get(index) {
            return Ok(value.clone());
        }
        let Some(slot) = self.program.slots.get(index) else {
            return Err(EvalError::new("a name has no value"));
        };
        let loose = self.budget.loose();
        let value = self.scope.resolve(slot)?;
        self.budget.pin(loose);
        if let Some(kept) = self.slots.get_mut(index) {
            *kept = Some(value.clone());
        }
        Ok(value)
    }

    /// Evaluates a condition and releases its intermediate values, except those cached in slots.
    fn truth(&mut self, node: &Node) -> Result<bool, EvalError> {
        let loose = self.budget.loose();
        let value = self.node(node);
        self.budget.let_go(loose);
        match value? {
            Value::Bool(truth) => Ok(truth),
            other => Err(EvalError::new(format!("true or false is needed, not {}", other.kind()))),
        }
    }

    /// `decisive` is the value of one side that decides the outcome whatever the other side is.
    fn logical(&mut self, left: &Node, right: &Node, decisive: bool) -> Result<Value, EvalError> {
        let left = self.truth(left);
        if left == Ok(decisive) {
            return Ok(Value::Bool(decisive));
        }
        let right = self.truth(right);
        if right == Ok(decisive) {
            if left.is_err() {
                self.budget.spend(IGNORED_ERROR)?;
            }
            return Ok(Value::Bool(decisive));
        }
        left?;
        right?;
        Ok(Value::Bool(!decisive))
    }

    fn map(&mut self, entries: &[(Node, Node)]) -> Result<Value, EvalError> {
        let mut map = BTreeMap::new();
        self.budget.build_map()?;
        for (key, value) in entries {
            let key = match self.node(key)? {
                Value::Text(text) => {
                    self.budget.build_entry(text.len())?;
                    text.as_ref().to_owned()
                }
                other => return Err(EvalError::new(format!("a key must be a string, not {}", other.kind()))),
            };
            let value = self.node(value)?;
            match map.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                Entry::Occupied(taken) => {
                    let key = excerpt(taken.key());
                    return Err(EvalError::new(format!("the key {key:?} appears twice")));
                }
            }
        }
        Ok(Value::Map(Arc::new(map)))
    }

    /// The range of a comprehension: the items of a list or the keys of a map.
    fn items(&mut self, range: &Node) -> Result<Vec<Value>, EvalError> {
        let range = self.node(range)?;
        match &range {
            Value::List(items) => {
                self.budget.spend(items.len() as u64)?;
                self.budget.build_list(items.len())?;
            }
            Value::Map(entries) => {
                self.budget.spend(entries.len() as u64)?;
                self.budget.build_list(entries.len())?;
                entries.keys().try_for_each(|key| self.budget.build_text(key.len()))?;
            }
            other => return Err(EvalError::new(format!("cannot iterate over {}", other.kind()))),
        }
        Ok(match range {
            Value::List(items) => Arc::unwrap_or_clone(items),
            Value::Map(entries) => entries.keys().map(Value::text).collect(),
            _ => Vec::new(),
        })
    }

    fn bind(&mut self, local: usize, value: Value) {
        self.locals.truncate(local);
        self.locals.push(value);
    }

    fn each(&mut self, macro_: Macro, range: &Node, local: usize, body: &Node) -> Result<Value, EvalError> {
        let items = self.items(range)?;
        let value = match macro_ {
            Macro::All => self.quantify(items, local, body, false),
            Macro::Exists => self.quantify(items, local, body, true),
            Macro::ExistsOne => {
                let mut count = 0usize;
                for item in items {
                    self.bind(local, item);
                    count += usize::from(self.truth(body)?);
                }
                Ok(Value::Bool(count == 1))
            }
            Macro::Filter => {
                let mut kept = Vec::new();
                for item in items {
                    self.bind(local, item.clone());
                    if self.truth(body)? {
                        self.budget.build_list(1)?;
                        kept.push(item);
                    }
                }
                Ok(Value::List(Arc::new(kept)))
            }
            Macro::Map => {
                self.budget.build_list(items.len())?;
                let mut mapped = Vec::with_capacity(items.len());
                for item in items {
                    self.bind(local, item);
                    mapped.push(self.node(body)?);
                }
                Ok(Value::List(Arc::new(mapped)))
            }
        };
        self.locals.truncate(local);
        value
    }

    fn quantify(
        &mut self,
        items: Vec<Value>,
        local: usize,
        body: &Node,
        decisive: bool,
    ) -> Result<Value, EvalError> {
        let mut error = None;
        for item in items {
            self.bind(local, item);
            match self.truth(body) {
                Ok(truth) if truth == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(raised) => {
                    // An exhausted budget ends the loop.
                    self.budget.spend(IGNORED_ERROR)?;
                    error = error.or(Some(raised));
                }
            }
        }
        error.map_or(Ok(Value::Bool(!decisive)), Err)
    }
}

fn element(operand: &Value, index: &Value) -> Result<Value, EvalError> {
    match (operand, index) {
        (Value::List(items), Value::Int(at)) => usize::try_from(*at)
            .ok()
            .and_then(|at| items.get(at).cloned())
            .ok_or_else(|| EvalError::new(format!("there is no element {at} in a list of {}", items.len()))),
        (Value::Map(map), Value::Text(key)) => {
            map.get(&**key).cloned().ok_or_else(|| EvalError::new(format!("there is no {}", excerpt(key))))
        }
        (_, _) => Err(EvalError::new(format!("cannot index {} with {}", operand.kind(), index.kind()))),
    }
}

/// The start of a text, as quoted in messages.
pub(crate) fn excerpt(text: &str) -> &str {
    const LONGEST: usize = 100;
    &text[..text.floor_char_boundary(LONGEST)]
}

fn no_field(value: &Value, field: &str) -> EvalError {
    EvalError::new(format!("{} has no field {field}", value.kind()))
}

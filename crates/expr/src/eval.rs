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

use super::budget::ExprBudget;
use super::program::{CelMacro, CelProgram, ExprNode};
use super::{CelValue, EvalError, ExprScope, function, number};

pub(super) fn evaluate(program: &CelProgram, scope: &ExprScope<'_>) -> Result<CelValue, EvalError> {
    scope.budget.spend(SETUP)?;
    let mut evaluation = ExprEvaluation {
        program,
        scope,
        slots: vec![None; program.slots.len()],
        locals: Vec::with_capacity(program.locals),
        budget: scope.budget,
    };
    evaluation.eval_node(&program.node)
}

/// Fixed cost of an evaluation, charged before its first node.
const SETUP: u64 = 4;
/// Cost of an error that another value overrides: its message was built and discarded.
const IGNORED_ERROR: u64 = 4;

struct ExprEvaluation<'a> {
    program: &'a CelProgram,
    scope: &'a ExprScope<'a>,
    /// Each path is fetched at most once.
    slots: Vec<Option<CelValue>>,
    locals: Vec<CelValue>,
    budget: &'a ExprBudget<'a>,
}

impl ExprEvaluation<'_> {
    fn eval_node(&mut self, node: &ExprNode) -> Result<CelValue, EvalError> {
        self.budget.spend(1)?;
        match node {
            ExprNode::Literal(value) => Ok(value.clone()),
            ExprNode::Slot(index) => self.eval_slot(*index),
            ExprNode::Local(index) => {
                self.locals.get(*index).cloned().ok_or_else(|| EvalError::new("a variable has no value"))
            }
            ExprNode::Field { operand, field } => match self.eval_node(operand)? {
                CelValue::Map(map) => {
                    map.get(field).cloned().ok_or_else(|| EvalError::new(format!("there is no {field}")))
                }
                other => Err(no_field_error(&other, field)),
            },
            ExprNode::Has { operand, field } => match self.eval_node(operand)? {
                CelValue::Map(map) => Ok(CelValue::Bool(map.contains_key(field))),
                CelValue::Null => Ok(CelValue::Bool(false)),
                other => Err(no_field_error(&other, field)),
            },
            ExprNode::Index { operand, index } => {
                let (operand, index) = (self.eval_node(operand)?, self.eval_node(index)?);
                if let CelValue::Text(key) = &index {
                    self.budget.read_text(key.len())?;
                }
                index_value(&operand, &index)
            }
            ExprNode::Not(operand) => Ok(CelValue::Bool(!self.eval_condition(operand)?)),
            ExprNode::Negate(operand) => number::negate(&self.eval_node(operand)?),
            ExprNode::And(left, right) => self.eval_logical(left, right, false),
            ExprNode::Or(left, right) => self.eval_logical(left, right, true),
            ExprNode::If { condition, then, otherwise } => {
                if self.eval_condition(condition)? {
                    self.eval_node(then)
                } else {
                    self.eval_node(otherwise)
                }
            }
            ExprNode::Binary { operator, left, right } => {
                let (left, right) = (self.eval_node(left)?, self.eval_node(right)?);
                number::eval_binary(*operator, &left, &right, self.budget)
            }
            ExprNode::List(items) => {
                self.budget.build_list(items.len())?;
                let items: Result<Vec<_>, _> = items.iter().map(|item| self.eval_node(item)).collect();
                Ok(CelValue::List(Arc::new(items?)))
            }
            ExprNode::Map(entries) => self.eval_map(entries),
            ExprNode::Call { function, arguments } => {
                let arguments: Result<Vec<_>, _> =
                    arguments.iter().map(|item| self.eval_node(item)).collect();
                function::call_function(*function, &arguments?, self.budget)
            }
            ExprNode::Matches { operand, pattern } => match self.eval_node(operand)? {
                CelValue::Text(text) => {
                    self.budget.spend(pattern.search_units(text.len()))?;
                    Ok(CelValue::Bool(pattern.is_match(&text)))
                }
                other => Err(EvalError::new(format!("matches() needs a string, not {}", other.kind()))),
            },
            ExprNode::Each { macro_, range, local, body } => {
                self.eval_comprehension(*macro_, range, *local, body)
            }
            ExprNode::MapWhere { range, local, keep, body } => {
                let mut mapped = Vec::new();
                for item in self.comprehension_items(range)? {
                    self.bind_local(*local, item);
                    if self.eval_condition(keep)? {
                        self.budget.build_list(1)?;
                        mapped.push(self.eval_node(body)?);
                    }
                }
                self.locals.truncate(*local);
                Ok(CelValue::List(Arc::new(mapped)))
            }
        }
    }

    fn eval_slot(&mut self, index: usize) -> Result<CelValue, EvalError> {
        if let Some(Some(value)) = self.slots.get(index) {
            return Ok(value.clone());
        }
        let Some(slot) = self.program.slots.get(index) else {
            return Err(EvalError::new("a name has no value"));
        };
        let loose = self.budget.loose_bytes();
        let value = self.scope.resolve_slot(slot)?;
        self.budget.pin_since(loose);
        if let Some(kept) = self.slots.get_mut(index) {
            *kept = Some(value.clone());
        }
        Ok(value)
    }

    /// Evaluates a condition and releases its intermediate values, except those cached in slots.
    fn eval_condition(&mut self, node: &ExprNode) -> Result<bool, EvalError> {
        let loose = self.budget.loose_bytes();
        let value = self.eval_node(node);
        self.budget.release_since(loose);
        match value? {
            CelValue::Bool(truth) => Ok(truth),
            other => Err(EvalError::new(format!("true or false is needed, not {}", other.kind()))),
        }
    }

    /// `decisive` is the value of one side that decides the outcome whatever the other side is.
    fn eval_logical(
        &mut self,
        left: &ExprNode,
        right: &ExprNode,
        decisive: bool,
    ) -> Result<CelValue, EvalError> {
        let left = self.eval_condition(left);
        if left == Ok(decisive) {
            return Ok(CelValue::Bool(decisive));
        }
        let right = self.eval_condition(right);
        if right == Ok(decisive) {
            if left.is_err() {
                self.budget.spend(IGNORED_ERROR)?;
            }
            return Ok(CelValue::Bool(decisive));
        }
        left?;
        right?;
        Ok(CelValue::Bool(!decisive))
    }

    fn eval_map(&mut self, entries: &[(ExprNode, ExprNode)]) -> Result<CelValue, EvalError> {
        let mut map = BTreeMap::new();
        self.budget.build_map()?;
        for (key, value) in entries {
            let key = match self.eval_node(key)? {
                CelValue::Text(text) => {
                    self.budget.build_entry(text.len())?;
                    text.as_ref().to_owned()
                }
                other => return Err(EvalError::new(format!("a key must be a string, not {}", other.kind()))),
            };
            let value = self.eval_node(value)?;
            match map.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                Entry::Occupied(taken) => {
                    let key = text_excerpt(taken.key());
                    return Err(EvalError::new(format!("the key {key:?} appears twice")));
                }
            }
        }
        Ok(CelValue::Map(Arc::new(map)))
    }

    /// The range of a comprehension: the items of a list or the keys of a map.
    fn comprehension_items(&mut self, range: &ExprNode) -> Result<Vec<CelValue>, EvalError> {
        let range = self.eval_node(range)?;
        match &range {
            CelValue::List(items) => {
                self.budget.spend(items.len() as u64)?;
                self.budget.build_list(items.len())?;
            }
            CelValue::Map(entries) => {
                self.budget.spend(entries.len() as u64)?;
                self.budget.build_list(entries.len())?;
                entries.keys().try_for_each(|key| self.budget.build_text(key.len()))?;
            }
            other => return Err(EvalError::new(format!("cannot iterate over {}", other.kind()))),
        }
        Ok(match range {
            CelValue::List(items) => Arc::unwrap_or_clone(items),
            CelValue::Map(entries) => entries.keys().map(CelValue::text).collect(),
            _ => Vec::new(),
        })
    }

    fn bind_local(&mut self, local: usize, value: CelValue) {
        self.locals.truncate(local);
        self.locals.push(value);
    }

    fn eval_comprehension(
        &mut self,
        macro_: CelMacro,
        range: &ExprNode,
        local: usize,
        body: &ExprNode,
    ) -> Result<CelValue, EvalError> {
        let items = self.comprehension_items(range)?;
        let value = match macro_ {
            CelMacro::All => self.eval_quantifier(items, local, body, false),
            CelMacro::Exists => self.eval_quantifier(items, local, body, true),
            CelMacro::ExistsOne => {
                let mut count = 0usize;
                for item in items {
                    self.bind_local(local, item);
                    count += usize::from(self.eval_condition(body)?);
                }
                Ok(CelValue::Bool(count == 1))
            }
            CelMacro::Filter => {
                let mut kept = Vec::new();
                for item in items {
                    self.bind_local(local, item.clone());
                    if self.eval_condition(body)? {
                        self.budget.build_list(1)?;
                        kept.push(item);
                    }
                }
                Ok(CelValue::List(Arc::new(kept)))
            }
            CelMacro::Map => {
                self.budget.build_list(items.len())?;
                let mut mapped = Vec::with_capacity(items.len());
                for item in items {
                    self.bind_local(local, item);
                    mapped.push(self.eval_node(body)?);
                }
                Ok(CelValue::List(Arc::new(mapped)))
            }
        };
        self.locals.truncate(local);
        value
    }

    fn eval_quantifier(
        &mut self,
        items: Vec<CelValue>,
        local: usize,
        body: &ExprNode,
        decisive: bool,
    ) -> Result<CelValue, EvalError> {
        let mut error = None;
        for item in items {
            self.bind_local(local, item);
            match self.eval_condition(body) {
                Ok(truth) if truth == decisive => return Ok(CelValue::Bool(decisive)),
                Ok(_) => {}
                Err(raised) => {
                    // An exhausted budget ends the loop.
                    self.budget.spend(IGNORED_ERROR)?;
                    error = error.or(Some(raised));
                }
            }
        }
        error.map_or(Ok(CelValue::Bool(!decisive)), Err)
    }
}

fn index_value(operand: &CelValue, index: &CelValue) -> Result<CelValue, EvalError> {
    match (operand, index) {
        (CelValue::List(items), CelValue::Int(at)) => usize::try_from(*at)
            .ok()
            .and_then(|at| items.get(at).cloned())
            .ok_or_else(|| EvalError::new(format!("there is no element {at} in a list of {}", items.len()))),
        (CelValue::Map(map), CelValue::Text(key)) => map
            .get(&**key)
            .cloned()
            .ok_or_else(|| EvalError::new(format!("there is no {}", text_excerpt(key)))),
        (_, _) => Err(EvalError::new(format!("cannot index {} with {}", operand.kind(), index.kind()))),
    }
}

/// The start of a text, as quoted in messages.
pub fn text_excerpt(text: &str) -> &str {
    const LONGEST: usize = 100;
    &text[..text.floor_char_boundary(LONGEST)]
}

fn no_field_error(value: &CelValue, field: &str) -> EvalError {
    EvalError::new(format!("{} has no field {field}", value.kind()))
}

//! The scope of an evaluation: the values behind the names of an expression.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_model::context::ExecutionContext;
use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::budget::ExprBudget;
use super::fetch::{self, PathLookup};
use super::path::{PathRoot, PathSlot, PathStep, SlotAccess};
use super::{CelValue, EvalError};

/// The values that expressions may reference, as raw JSON.
#[derive(Debug, Clone, Copy)]
pub struct ExprScope<'a> {
    pub context: &'a ExecutionContext,
    pub event: EventScope<'a>,
    pub now: Timestamp,
    /// Results by action. In rules about answers it holds `answer`, `item` and `person` instead.
    pub results: &'a BTreeMap<Name, RawJson>,
    /// The response of an HTTP action, while its result is mapped.
    pub response: Option<&'a RawJson>,
    /// The budget shared by all evaluations of one step.
    pub budget: &'a ExprBudget<'a>,
}

#[derive(Debug, Clone, Copy)]
pub struct EventScope<'a> {
    pub name: &'a str,
    /// The payload of the event. Expressions of a graph have no event: there it is `input`.
    pub payload: &'a RawJson,
    pub time: Timestamp,
}

/// The point where a path enters raw JSON.
enum ResolvedRoot<'s, 'p> {
    Raw(&'s RawJson, &'p [PathStep]),
    Whole(CelValue),
    Missing,
}

impl ExprScope<'_> {
    /// The raw text at the end of a path, if the path ends inside raw JSON.
    pub(super) fn raw_at(&self, root: PathRoot, path: &[PathStep]) -> Result<Option<RawJson>, EvalError> {
        if path.is_empty() && matches!(root, PathRoot::Context | PathRoot::Results | PathRoot::Event) {
            return Ok(None);
        }
        match self.resolve_root(root, path)? {
            ResolvedRoot::Raw(raw, rest) => match fetch::fetch_raw(raw, rest, self.budget)? {
                PathLookup::Found(found) => Ok(Some(found)),
                PathLookup::Missing { .. } | PathLookup::Mismatch { .. } => Ok(None),
            },
            ResolvedRoot::Whole(_) | ResolvedRoot::Missing => Ok(None),
        }
    }

    pub(super) fn resolve_slot(&self, slot: &PathSlot) -> Result<CelValue, EvalError> {
        let budget = self.budget;
        let entrance = self.resolve_root(slot.root, &slot.path)?;
        match slot.want {
            SlotAccess::Value => match entrance {
                ResolvedRoot::Raw(raw, rest) => match fetch::fetch_value(raw, rest, budget)? {
                    PathLookup::Found(value) => Ok(value),
                    PathLookup::Missing { left } => Err(missing_error(slot, left)),
                    PathLookup::Mismatch { left, kind } => Err(mismatch_error(slot, left, kind)),
                },
                ResolvedRoot::Whole(value) => Ok(value),
                ResolvedRoot::Missing => Err(missing_error(slot, slot.path.len().saturating_sub(1))),
            },
            SlotAccess::Presence => match entrance {
                ResolvedRoot::Raw(raw, rest) => match fetch::fetch_presence(raw, rest, budget)? {
                    PathLookup::Found(()) => Ok(CelValue::Bool(true)),
                    // CEL: only the last step may be missing. A null has no fields.
                    PathLookup::Missing { left: 0 } | PathLookup::Mismatch { kind: "null", .. } => {
                        Ok(CelValue::Bool(false))
                    }
                    PathLookup::Missing { left } => Err(missing_error(slot, left)),
                    PathLookup::Mismatch { left, kind } => Err(mismatch_error(slot, left, kind)),
                },
                ResolvedRoot::Whole(_) => Ok(CelValue::Bool(true)),
                ResolvedRoot::Missing if slot.path.len() == 1 => Ok(CelValue::Bool(false)),
                ResolvedRoot::Missing => Err(missing_error(slot, slot.path.len().saturating_sub(1))),
            },
        }
    }

    fn resolve_root<'p>(
        &self,
        root: PathRoot,
        path: &'p [PathStep],
    ) -> Result<ResolvedRoot<'_, 'p>, EvalError> {
        let budget = self.budget;
        let first = match path.first() {
            Some(PathStep::Field(field)) => Some(field.as_str()),
            Some(PathStep::Index(_)) if matches!(root, PathRoot::Answer | PathRoot::Item) => None,
            Some(PathStep::Index(_)) => return Err(EvalError::new("a number is not a valid key here")),
            None => None,
        };
        match root {
            PathRoot::Now => Ok(ResolvedRoot::Whole(CelValue::Time(self.now.to_utc()))),
            PathRoot::Context => match first {
                Some(field) => Ok(enter_raw(self.context.get(field), &path[1..])),
                None => whole_map(self.context.iter().map(|(key, raw)| (key.as_str(), raw)), budget),
            },
            PathRoot::Results => match first {
                Some(field) => Ok(enter_raw(self.results.get(field), &path[1..])),
                None => whole_map(self.results.iter().map(|(key, raw)| (key.as_str(), raw)), budget),
            },
            PathRoot::Response => Ok(enter_raw(self.response, path)),
            PathRoot::Answer | PathRoot::Item | PathRoot::Person => {
                Ok(enter_raw(self.results.get(root.root_name()), path))
            }
            PathRoot::Input => Ok(ResolvedRoot::Raw(self.event.payload, path)),
            PathRoot::Event => match first {
                Some("payload") => Ok(ResolvedRoot::Raw(self.event.payload, &path[1..])),
                Some("name") => Ok(ResolvedRoot::Whole(CelValue::text(self.event.name))),
                Some("time") => Ok(ResolvedRoot::Whole(CelValue::Time(self.event.time.to_utc()))),
                Some(_) => Ok(ResolvedRoot::Missing),
                None => {
                    let ResolvedRoot::Whole(CelValue::Map(map)) =
                        whole_map([("payload", self.event.payload)].into_iter(), budget)?
                    else {
                        return Ok(ResolvedRoot::Missing);
                    };
                    let mut map = BTreeMap::clone(&map);
                    map.insert("name".to_owned(), CelValue::text(self.event.name));
                    map.insert("time".to_owned(), CelValue::Time(self.event.time.to_utc()));
                    Ok(ResolvedRoot::Whole(CelValue::Map(Arc::new(map))))
                }
            },
        }
    }
}

fn enter_raw<'s, 'p>(raw: Option<&'s RawJson>, rest: &'p [PathStep]) -> ResolvedRoot<'s, 'p> {
    raw.map_or(ResolvedRoot::Missing, |raw| ResolvedRoot::Raw(raw, rest))
}

fn whole_map<'s, 'p>(
    entries: impl Iterator<Item = (&'s str, &'s RawJson)>,
    budget: &ExprBudget<'_>,
) -> Result<ResolvedRoot<'s, 'p>, EvalError> {
    let mut map = BTreeMap::new();
    budget.build_map()?;
    for (key, raw) in entries {
        budget.build_entry(key.len())?;
        if let PathLookup::Found(value) = fetch::fetch_value(raw, &[], budget)? {
            map.insert(key.to_owned(), value);
        }
    }
    Ok(ResolvedRoot::Whole(CelValue::Map(Arc::new(map))))
}

/// The source form of a slot's path without its last `left` steps.
fn slot_source(slot: &PathSlot, left: usize) -> String {
    let mut text = slot.root.root_name().to_owned();
    for step in &slot.path[..slot.path.len().saturating_sub(left)] {
        match step {
            PathStep::Field(field) => {
                text.push('.');
                text.push_str(field);
            }
            PathStep::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

fn missing_error(slot: &PathSlot, left: usize) -> EvalError {
    EvalError::new(format!("there is no {}", slot_source(slot, left)))
}

fn mismatch_error(slot: &PathSlot, left: usize, kind: &str) -> EvalError {
    EvalError::new(format!("{} is {kind} and has no such part", slot_source(slot, left)))
}

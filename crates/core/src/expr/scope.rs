//! The scope of an evaluation: the values behind the names of an expression.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::Name;
use crate::log::Context;
use crate::raw::RawJson;
use crate::time::Timestamp;

use super::budget::Budget;
use super::fetch::{self, Fetched};
use super::program::{Root, Slot, Step, Want};
use super::{EvalError, Value};

/// The values that expressions may reference, as raw JSON.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub context: &'a Context,
    pub event: EventScope<'a>,
    pub now: Timestamp,
    /// Results by action. In rules about answers it holds `answer`, `item` and `person` instead.
    pub results: &'a BTreeMap<Name, RawJson>,
    /// The response of an HTTP action, while its result is mapped.
    pub response: Option<&'a RawJson>,
    /// The budget shared by all evaluations of one step.
    pub budget: &'a Budget<'a>,
}

#[derive(Debug, Clone, Copy)]
pub struct EventScope<'a> {
    pub name: &'a str,
    /// The payload of the event. Expressions of a graph have no event: there it is `input`.
    pub payload: &'a RawJson,
    pub time: Timestamp,
}

/// The point where a path enters raw JSON.
enum Entrance<'s, 'p> {
    Raw(&'s RawJson, &'p [Step]),
    Whole(Value),
    Missing,
}

impl Scope<'_> {
    /// The raw text at the end of a path, if the path ends inside raw JSON.
    pub(super) fn raw(&self, root: Root, path: &[Step]) -> Result<Option<RawJson>, EvalError> {
        if path.is_empty() && matches!(root, Root::Context | Root::Results | Root::Event) {
            return Ok(None);
        }
        match self.entrance(root, path)? {
            Entrance::Raw(raw, rest) => match fetch::raw(raw, rest, self.budget)? {
                Fetched::Found(found) => Ok(Some(found)),
                Fetched::Missing { .. } | Fetched::Mismatch { .. } => Ok(None),
            },
            Entrance::Whole(_) | Entrance::Missing => Ok(None),
        }
    }

    pub(super) fn resolve(&self, slot: &Slot) -> Result<Value, EvalError> {
        let budget = self.budget;
        let entrance = self.entrance(slot.root, &slot.path)?;
        match slot.want {
            Want::Value => match entrance {
                Entrance::Raw(raw, rest) => match fetch::value(raw, rest, budget)? {
                    Fetched::Found(value) => Ok(value),
                    Fetched::Missing { left } => Err(missing(slot, left)),
                    Fetched::Mismatch { left, kind } => Err(mismatch(slot, left, kind)),
                },
                Entrance::Whole(value) => Ok(value),
                Entrance::Missing => Err(missing(slot, slot.path.len().saturating_sub(1))),
            },
            Want::Presence => match entrance {
                Entrance::Raw(raw, rest) => match fetch::presence(raw, rest, budget)? {
                    Fetched::Found(()) => Ok(Value::Bool(true)),
                    // CEL: only the last step may be missing. A null has no fields.
                    Fetched::Missing { left: 0 } | Fetched::Mismatch { kind: "null", .. } => {
                        Ok(Value::Bool(false))
                    }
                    Fetched::Missing { left } => Err(missing(slot, left)),
                    Fetched::Mismatch { left, kind } => Err(mismatch(slot, left, kind)),
                },
                Entrance::Whole(_) => Ok(Value::Bool(true)),
                Entrance::Missing if slot.path.len() == 1 => Ok(Value::Bool(false)),
                Entrance::Missing => Err(missing(slot, slot.path.len().saturating_sub(1))),
            },
        }
    }

    fn entrance<'p>(&self, root: Root, path: &'p [Step]) -> Result<Entrance<'_, 'p>, EvalError> {
        let budget = self.budget;
        let first = match path.first() {
            Some(Step::Field(field)) => Some(field.as_str()),
            Some(Step::Index(_)) if matches!(root, Root::Answer | Root::Item) => None,
            Some(Step::Index(_)) => return Err(EvalError::new("a number is not a valid key here")),
            None => None,
        };
        match root {
            Root::Now => Ok(Entrance::Whole(Value::Time(self.now.to_utc()))),
            Root::Context => match first {
                Some(field) => Ok(enter(self.context.get(field), &path[1..])),
                None => whole(self.context.iter().map(|(key, raw)| (key.as_str(), raw)), budget),
            },
            Root::Results => match first {
                Some(field) => Ok(enter(self.results.get(field), &path[1..])),
                None => whole(self.results.iter().map(|(key, raw)| (key.as_str(), raw)), budget),
            },
            Root::Response => Ok(enter(self.response, path)),
            Root::Answer | Root::Item | Root::Person => Ok(enter(self.results.get(root.word()), path)),
            Root::Input => Ok(Entrance::Raw(self.event.payload, path)),
            Root::Event => match first {
                Some("payload") => Ok(Entrance::Raw(self.event.payload, &path[1..])),
                Some("name") => Ok(Entrance::Whole(Value::text(self.event.name))),
                Some("time") => Ok(Entrance::Whole(Value::Time(self.event.time.to_utc()))),
                Some(_) => Ok(Entrance::Missing),
                None => {
                    let Entrance::Whole(Value::Map(map)) =
                        whole([("payload", self.event.payload)].into_iter(), budget)?
                    else {
                        return Ok(Entrance::Missing);
                    };
                    let mut map = BTreeMap::clone(&map);
                    map.insert("name".to_owned(), Value::text(self.event.name));
                    map.insert("time".to_owned(), Value::Time(self.event.time.to_utc()));
                    Ok(Entrance::Whole(Value::Map(Arc::new(map))))
                }
            },
        }
    }
}

fn enter<'s, 'p>(raw: Option<&'s RawJson>, rest: &'p [Step]) -> Entrance<'s, 'p> {
    raw.map_or(Entrance::Missing, |raw| Entrance::Raw(raw, rest))
}

fn whole<'s, 'p>(
    entries: impl Iterator<Item = (&'s str, &'s RawJson)>,
    budget: &Budget<'_>,
) -> Result<Entrance<'s, 'p>, EvalError> {
    let mut map = BTreeMap::new();
    budget.build_map()?;
    for (key, raw) in entries {
        budget.build_entry(key.len())?;
        if let Fetched::Found(value) = fetch::value(raw, &[], budget)? {
            map.insert(key.to_owned(), value);
        }
    }
    Ok(Entrance::Whole(Value::Map(Arc::new(map))))
}

/// The source form of a slot's path without its last `left` steps.
fn shown(slot: &Slot, left: usize) -> String {
    let mut text = slot.root.word().to_owned();
    for step in &slot.path[..slot.path.len().saturating_sub(left)] {
        match step {
            Step::Field(field) => {
                text.push('.');
                text.push_str(field);
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

fn missing(slot: &Slot, left: usize) -> EvalError {
    EvalError::new(format!("there is no {}", shown(slot, left)))
}

fn mismatch(slot: &Slot, left: usize, kind: &str) -> EvalError {
    EvalError::new(format!("{} is {kind} and has no such part", shown(slot, left)))
}

//! What an action that waits for others remembers of the moment of its transition.
//!
//! Only what its expressions mention is kept: objects are thinned out along static paths, everything
//! else is copied whole. The copy is JSON text, stored with the action, and renders the same input on
//! any worker at any later time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::expr::{EventScope, Root, Scope, Step};
use crate::id::Name;
use crate::log::Context;
use crate::raw::RawJson;
use crate::time::Timestamp;

/// The parts of a scope that some expressions mention.
#[derive(Debug, Default)]
pub(super) struct Captures {
    context: Part,
    payload: Part,
}

/// What is kept of one value.
#[derive(Debug)]
enum Part {
    Whole,
    /// Nothing but these fields; none at all when empty.
    Fields(BTreeMap<String, Part>),
}

impl Default for Part {
    fn default() -> Self {
        Self::Fields(BTreeMap::new())
    }
}

/// The stored form.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Captured {
    context: Context,
    event: CapturedEvent,
    now: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct CapturedEvent {
    name: String,
    payload: RawJson,
    time: Timestamp,
}

impl Captures {
    pub(super) fn add(&mut self, root: Root, path: &[Step]) {
        match root {
            Root::Context => self.context.add(path),
            Root::Event => match path.split_first() {
                None => self.payload = Part::Whole,
                Some((Step::Field(field), rest)) if field == "payload" => self.payload.add(rest),
                Some((Step::Field(_) | Step::Index(_), _)) => {}
            },
            // Always kept, and not known yet, respectively.
            Root::Now
            | Root::Results
            | Root::Response
            | Root::Input
            | Root::Answer
            | Root::Item
            | Root::Person => {}
        }
    }

    pub(super) fn take(&self, scope: &Scope<'_>) -> RawJson {
        let context = match &self.context {
            Part::Whole => scope.context.clone(),
            Part::Fields(fields) => fields
                .iter()
                .filter_map(|(key, part)| scope.context.get(key).map(|raw| (key.clone(), part.of(raw))))
                .collect(),
        };
        let event = CapturedEvent {
            name: scope.event.name.to_owned(),
            payload: self.payload.of(scope.event.payload),
            time: scope.event.time,
        };
        RawJson::of(&Captured { context, event, now: scope.now })
    }
}

impl Part {
    fn add(&mut self, path: &[Step]) {
        let Some((Step::Field(field), rest)) = path.split_first() else {
            *self = Self::Whole;
            return;
        };
        match self {
            Self::Whole => {}
            Self::Fields(fields) => fields.entry(field.clone()).or_default().add(rest),
        }
    }

    fn of(&self, raw: &RawJson) -> RawJson {
        match self {
            Self::Whole => raw.clone(),
            Self::Fields(fields) if fields.is_empty() => RawJson::null(),
            Self::Fields(fields) => {
                // What is not an object has no fields to thin out, and expressions may ask what it is.
                let Ok(object) = raw.decode::<BTreeMap<String, &RawValue>>() else { return raw.clone() };
                let kept: BTreeMap<&String, RawJson> = fields
                    .iter()
                    .filter_map(|(key, part)| {
                        object.get(key).map(|value| (key, part.of(&RawJson::trusted(value.get()))))
                    })
                    .collect();
                RawJson::of(&kept)
            }
        }
    }
}

impl Captured {
    pub(super) fn scope<'a>(&'a self, results: &'a BTreeMap<Name, RawJson>) -> Scope<'a> {
        Scope {
            context: &self.context,
            event: EventScope { name: &self.event.name, payload: &self.event.payload, time: self.event.time },
            now: self.now,
            results,
            response: None,
        }
    }
}

//! Scope capture: the values that a waiting action keeps from its transition.
//!
//! The capture keeps only the values that the action's expressions reference: objects are pruned along
//! static paths, other values are copied whole. The copy is JSON text, stored with the action, and renders
//! the same input on any worker at any later time.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use millstream_expr::{EvalError, EventScope, ExprBudget, ExprScope, PathRoot, PathStep};
use millstream_model::context::{ExecutionContext, context_bytes};
use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The parts of a scope that the expressions of an action reference.
#[derive(Debug, Default)]
pub(super) struct ScopeCapture {
    context: CapturedPart,
    payload: CapturedPart,
}

/// The captured part of one value.
#[derive(Debug)]
enum CapturedPart {
    Whole,
    /// Only these fields; no value at all when empty.
    Fields(BTreeMap<String, CapturedPart>),
}

impl Default for CapturedPart {
    fn default() -> Self {
        Self::Fields(BTreeMap::new())
    }
}

/// The stored form of a captured scope.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CapturedScope {
    context: ExecutionContext,
    event: CapturedEvent,
    now: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct CapturedEvent {
    name: String,
    payload: RawJson,
    time: Timestamp,
}

impl ScopeCapture {
    pub(super) fn add_reference(&mut self, root: PathRoot, path: &[PathStep]) {
        match root {
            PathRoot::Context => self.context.add_path(path),
            PathRoot::Event => match path.split_first() {
                None => self.payload = CapturedPart::Whole,
                Some((PathStep::Field(field), rest)) if field == "payload" => self.payload.add_path(rest),
                Some((PathStep::Field(_) | PathStep::Index(_), _)) => {}
            },
            // `now` is always captured; the others are not available at the transition.
            PathRoot::Now
            | PathRoot::Results
            | PathRoot::Response
            | PathRoot::Input
            | PathRoot::Answer
            | PathRoot::Item
            | PathRoot::Person => {}
        }
    }

    /// Copies the captured parts; reading, building and keeping the copy is charged to the budget of the
    /// step.
    pub(super) fn capture_scope(&self, scope: &ExprScope<'_>) -> Result<RawJson, EvalError> {
        let mut context = ExecutionContext::new();
        for (key, raw) in scope.context {
            let part = match &self.context {
                CapturedPart::Whole => Some(&CapturedPart::Whole),
                CapturedPart::Fields(fields) => fields.get(key),
            };
            if let Some(part) = part {
                context.insert(key.clone(), part.capture_value(raw, scope.budget)?);
            }
        }
        let event = CapturedEvent {
            name: scope.event.name.to_owned(),
            payload: self.payload.capture_value(scope.event.payload, scope.budget)?,
            time: scope.event.time,
        };
        let captured = CapturedScope { context, event, now: scope.now };
        let len = context_bytes(&captured.context) + captured.event.payload.len();
        // Serializing raw JSON parses it.
        scope.budget.parse_json(len)?;
        scope.budget.keep_bytes(len)?;
        Ok(RawJson::from_value(&captured))
    }
}

impl CapturedPart {
    fn add_path(&mut self, path: &[PathStep]) {
        let Some((PathStep::Field(field), rest)) = path.split_first() else {
            *self = Self::Whole;
            return;
        };
        match self {
            Self::Whole => {}
            Self::Fields(fields) => fields.entry(field.clone()).or_default().add_path(rest),
        }
    }

    fn capture_value(&self, raw: &RawJson, budget: &ExprBudget<'_>) -> Result<RawJson, EvalError> {
        match self {
            Self::Whole => Ok(raw.clone()),
            Self::Fields(fields) if fields.is_empty() => Ok(RawJson::null()),
            Self::Fields(fields) => {
                budget.parse_json(raw.len())?;
                let mut deserializer = serde_json::Deserializer::from_str(raw.as_str());
                // A value other than an object has no fields to prune; expressions may still inspect it.
                let Ok(found) = CapturedFieldsSeed(fields).deserialize(&mut deserializer) else {
                    return Ok(raw.clone());
                };
                let mut kept: BTreeMap<&str, RawJson> = BTreeMap::new();
                for (key, value) in found {
                    let Some((key, part)) = fields.get_key_value(&key) else { continue };
                    budget.build_text(value.get().len())?;
                    kept.insert(key, part.capture_value(&RawJson::from_trusted_text(value.get()), budget)?);
                }
                Ok(RawJson::from_value(&kept))
            }
        }
    }
}

/// Reads these fields of an object; other fields are skipped without allocation.
struct CapturedFieldsSeed<'f>(&'f BTreeMap<String, CapturedPart>);

impl<'de> DeserializeSeed<'de> for CapturedFieldsSeed<'_> {
    type Value = BTreeMap<String, &'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for CapturedFieldsSeed<'_> {
    type Value = BTreeMap<String, &'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut found = BTreeMap::new();
        while let Some(key) = entries.next_key::<Cow<'de, str>>()? {
            if self.0.contains_key(&*key) {
                found.insert(key.into_owned(), entries.next_value()?);
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

impl CapturedScope {
    pub(super) fn to_scope<'a>(
        &'a self,
        results: &'a BTreeMap<Name, RawJson>,
        budget: &'a ExprBudget<'a>,
    ) -> ExprScope<'a> {
        ExprScope {
            context: &self.context,
            event: EventScope { name: &self.event.name, payload: &self.event.payload, time: self.event.time },
            now: self.now,
            results,
            response: None,
            budget,
        }
    }
}

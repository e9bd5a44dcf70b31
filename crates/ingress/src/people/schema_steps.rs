//! Bounds the work of a validation: every applied subschema counts a step, and beyond the limit the
//! validation unwinds.
//!
//! The library follows references without a limit and offers no cancellation; a schema whose definitions
//! refer to each other twice doubles the work with every level. Therefore every subschema gets an
//! additional keyword, which the library calls whenever it compiles or applies that subschema. Within
//! [`run_limited`] the keyword counts steps, checks the clock at intervals, and unwinds out of the library
//! beyond the limit. The thread is free again; no work continues in the background.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

/// Unlike any keyword of JSON Schema.
pub(super) const STEP_KEYWORD: &str = "x-millstream-step";
/// Upper bound of applied subschemas for one answer, repetitions included. This bound alone disables a
/// schema, not the clock: a busy machine must not disable any.
pub(super) const MAX_STEPS: u64 = 200_000;
const STEPS_PER_LOOK: u64 = 64;

thread_local! {
    static LIMIT: Cell<Option<StepLimit>> = const { Cell::new(None) };
}

#[derive(Debug, Clone, Copy)]
struct StepLimit {
    steps: u64,
    most: u64,
    until: Instant,
}

/// Why limited work has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepCut {
    /// Too many steps: the result would be the same on every machine.
    Steps,
    /// Too much wall-clock time.
    Late,
    /// The work itself panicked.
    Broken,
}

/// The payload of the unwind.
struct LimitReached(StepCut);

/// Runs work that compiles or applies schemas on this thread, until it is done or exceeds a limit.
pub(super) fn run_limited<T>(steps: u64, time: Duration, work: impl FnOnce() -> T) -> Result<T, StepCut> {
    let limit = StepLimit { steps: 0, most: steps, until: Instant::now() + time };
    let outer = LIMIT.replace(Some(limit));
    let done = catch_unwind(AssertUnwindSafe(work));
    LIMIT.set(outer);
    done.map_err(|thrown| thrown.downcast::<LimitReached>().map_or(StepCut::Broken, |reached| reached.0))
}

fn count_step() {
    let Some(mut limit) = LIMIT.get() else { return };
    limit.steps += 1;
    LIMIT.set(Some(limit));
    let cut = if limit.steps > limit.most {
        StepCut::Steps
    } else if limit.steps.is_multiple_of(STEPS_PER_LOOK) && Instant::now() > limit.until {
        StepCut::Late
    } else {
        return;
    };
    // Unlike a panic, this calls no hook and prints nothing.
    resume_unwind(Box::new(LimitReached(cut)));
}

/// The step-counting keyword, as the library sees it: always satisfied.
struct CountedStep;

impl<'i> Keyword<'i> for CountedStep {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        count_step();
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        count_step();
        true
    }
}

/// Keywords whose values are data or names: they contain no subschemas.
const NO_SCHEMA: &[&str] =
    &["enum", "const", "default", "examples", "required", "dependentRequired", "type", "$vocabulary"];
/// Keywords whose values map names to subschemas.
const BY_NAME: &[&str] =
    &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Adds the step keyword to every subschema.
pub(super) fn count_steps(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if NO_SCHEMA.contains(&name.as_str()) {
                    continue;
                }
                match field {
                    Value::Object(named) if BY_NAME.contains(&name.as_str()) => {
                        named.values_mut().for_each(count_steps);
                    }
                    Value::Object(_) | Value::Array(_) => count_steps(field),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
                }
            }
            fields.insert(STEP_KEYWORD.to_owned(), Value::Bool(true));
        }
        Value::Array(items) => items.iter_mut().for_each(count_steps),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The first reference to a target without the step keyword: data used as a schema.
pub(super) fn uncounted_reference(schema: &Value) -> Option<String> {
    fn look(value: &Value, root: &Value) -> Option<String> {
        match value {
            Value::Object(fields) => {
                let counted =
                    |target: &&str| match target.strip_prefix('#').map(|pointer| root.pointer(pointer)) {
                        Some(Some(Value::Object(found))) => found.contains_key(STEP_KEYWORD),
                        // An anchor, a missing target, or a boolean schema: the library checks those.
                        Some(Some(_) | None) | None => true,
                    };
                let target = fields.get("$ref").and_then(Value::as_str).filter(|target| !counted(target));
                target.map(str::to_owned).or_else(|| fields.values().find_map(|field| look(field, root)))
            }
            Value::Array(items) => items.iter().find_map(|item| look(item, root)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
    look(schema, schema)
}

/// Builds the step keyword when the library compiles a subschema.
pub(super) fn compile_keyword<'a>(
    _: &'a Map<String, Value>,
    _: &'a Value,
    _: jsonschema::paths::Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    count_step();
    Ok(Box::new(CountedStep))
}

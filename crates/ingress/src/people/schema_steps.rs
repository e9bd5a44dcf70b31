//! What makes a validation end: every subschema that is looked at counts a step, and too many unwind.
//!
//! The library follows references wherever they lead and cannot be asked to stop; a schema whose definitions
//! refer to each other twice doubles the work with every level. So every subschema gets a keyword of ours,
//! which the library calls whenever it compiles or applies that subschema. Within [`limited`] it counts, looks at
//! the clock now and then, and, past the limit, unwinds out of the library. The thread that did the
//! work is free again; nothing goes on in the background.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

/// No keyword of JSON Schema begins like this.
pub(super) const STEP_KEYWORD: &str = "x-millstream-step";
/// Subschemas that may be applied to parts of one answer, each as often as it is. This and not the clock decides that a
/// schema cannot be used: a busy machine refuses nothing.
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

/// Why work under a limit has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepCut {
    /// Too many steps: it would be so on every machine.
    Steps,
    /// Too much time.
    Late,
    /// It panicked by itself.
    Broken,
}

/// What is thrown past the limit.
struct LimitReached(StepCut);

/// Runs work that compiles or applies schemas, on this thread, until it is done or past one of its limits.
pub(super) fn limited<T>(steps: u64, time: Duration, work: impl FnOnce() -> T) -> Result<T, StepCut> {
    let limit = StepLimit { steps: 0, most: steps, until: Instant::now() + time };
    let outer = LIMIT.replace(Some(limit));
    let done = catch_unwind(AssertUnwindSafe(work));
    LIMIT.set(outer);
    done.map_err(|thrown| thrown.downcast::<LimitReached>().map_or(StepCut::Broken, |reached| reached.0))
}

fn step() {
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
    // Not a panic: no hook is called and nothing is printed.
    resume_unwind(Box::new(LimitReached(cut)));
}

/// Our keyword, as the library sees it: always satisfied.
struct CountedStep;

impl<'i> Keyword<'i> for CountedStep {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        step();
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        step();
        true
    }
}

/// Values that are data, or names: there are no subschemas in them.
const NO_SCHEMA: &[&str] =
    &["enum", "const", "default", "examples", "required", "dependentRequired", "type", "$vocabulary"];
/// Values whose fields are subschemas by name.
const BY_NAME: &[&str] =
    &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Adds the keyword to every subschema.
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

/// The first reference to something that does not count its steps: data that is used as a schema.
pub(super) fn uncounted_reference(schema: &Value) -> Option<String> {
    fn look(value: &Value, root: &Value) -> Option<String> {
        match value {
            Value::Object(fields) => {
                let counted =
                    |target: &&str| match target.strip_prefix('#').map(|pointer| root.pointer(pointer)) {
                        Some(Some(Value::Object(found))) => found.contains_key(STEP_KEYWORD),
                        // A name, a place that is not there, or true and false: for the library to say.
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

/// What the library makes of our keyword when it compiles a subschema.
pub(super) fn compile_keyword<'a>(
    _: &'a Map<String, Value>,
    _: &'a Value,
    _: jsonschema::paths::Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    step();
    Ok(Box::new(CountedStep))
}

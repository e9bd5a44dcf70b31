//! Judging an answer by the rules of its queue: every problem at once.

use std::collections::BTreeMap;

use super::limits::{MAX_ANSWER_BYTES, MAX_PROBLEMS};
use super::queue::QueueConfig;
use crate::expr::{EventScope, Program, Scope, Value, Vocabulary};
use crate::id::{Name, PersonId};
use crate::log::Context;
use crate::problem::Problem;
use crate::raw::RawJson;
use crate::time::Timestamp;

static NOTHING: Context = Context::new();

/// Everything that is wrong with an answer; it is valid if that is nothing. `by_schema` is what the queue's JSON
/// Schema found: the rules are not asked about an answer of the wrong shape.
pub fn check(
    queue: &QueueConfig,
    answer: &RawJson,
    payload: &RawJson,
    person: &PersonId,
    by_schema: Vec<Problem>,
) -> Vec<Problem> {
    if answer.len() > MAX_ANSWER_BYTES {
        return vec![Problem::new("", format!("the answer is larger than {} KiB", MAX_ANSWER_BYTES / 1024))];
    }
    let mut problems = by_schema;
    if problems.is_empty() {
        for (n, rule) in queue.rules.iter().enumerate() {
            match evaluate(&rule.condition, answer, payload, person) {
                Ok((Value::Bool(false), _)) => {}
                Ok((Value::Bool(true), _)) => problems.push(Problem::new(&rule.path, &rule.message)),
                Ok((other, _)) => {
                    let message = format!("rule {n} must say true or false, it says {}", other.kind());
                    problems.push(Problem::new(&rule.path, message));
                }
                Err(error) => {
                    let message = format!("{} (rule {n} cannot be applied: {error})", rule.message);
                    problems.push(Problem::new(&rule.path, message));
                }
            }
        }
        if let Err(error) = evaluate(&queue.agreement, answer, payload, person) {
            problems.push(Problem::new("", format!("it cannot be compared with other answers: {error}")));
        }
    }
    if problems.len() > MAX_PROBLEMS {
        let more = problems.len() - MAX_PROBLEMS;
        problems.truncate(MAX_PROBLEMS);
        problems.push(Problem::new("", format!("and {more} more problems")));
    }
    problems
}

/// What an expression makes of an answer.
pub(super) fn evaluate(
    source: &str,
    answer: &RawJson,
    payload: &RawJson,
    person: &PersonId,
) -> Result<(Value, RawJson), String> {
    let program = Program::compile(source, Vocabulary::Answer).map_err(|messages| messages.join("; "))?;
    let name = |word: &str| Name::parse(word).map_err(|error| error.to_string());
    let known = BTreeMap::from([
        (name("answer")?, answer.clone()),
        (name("item")?, payload.clone()),
        (name("person")?, RawJson::of(person)),
    ]);
    let now = Timestamp::EPOCH;
    let event = EventScope { name: "", payload, time: now };
    let scope = Scope { context: &NOTHING, event, now, results: &known, response: None };
    let value = program.evaluate(&scope).map_err(|error| error.to_string())?;
    let raw = program.evaluate_json(&scope).map_err(|error| error.to_string())?;
    Ok((value, raw))
}

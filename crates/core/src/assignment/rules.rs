//! Judging an answer by the rules of its queue: every problem at once.

use std::collections::BTreeMap;

use super::limits::{MAX_ANSWER_BYTES, MAX_PROBLEMS};
use super::queue::QueueConfig;
use crate::expr::{Budget, EventScope, Program, Scope, Value, Vocabulary};
use crate::id::{Name, PersonId};
use crate::log::Context;
use crate::problem::Problem;
use crate::raw::RawJson;
use crate::time::Timestamp;

static NOTHING: Context = Context::new();

/// Everything that is wrong with an answer; it is valid if that is nothing. `by_schema` is what the queue's JSON
/// Schema found: the rules are not asked about an answer of the wrong shape. All rules pay from one `budget`; if
/// its stop rule ended it, the answer has not been judged.
pub fn check(
    queue: &QueueConfig,
    answer: &RawJson,
    payload: &RawJson,
    person: &PersonId,
    by_schema: Vec<Problem>,
    budget: &Budget<'_>,
) -> Vec<Problem> {
    if answer.len() > MAX_ANSWER_BYTES {
        return vec![Problem::new("", format!("the answer is larger than {} KiB", MAX_ANSWER_BYTES / 1024))];
    }
    let mut problems = by_schema;
    if problems.is_empty() {
        let judged = Judged { answer, payload, person };
        for (n, rule) in queue.rules.iter().enumerate() {
            match evaluate(&rule.condition, judged, budget) {
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
        if let Err(error) = evaluate(&queue.agreement, judged, budget) {
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

/// What the expressions of a queue are about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) answer: &'a RawJson,
    pub(super) payload: &'a RawJson,
    pub(super) person: &'a PersonId,
}

/// What an expression makes of an answer. All expressions of one decision pay from one budget.
pub(super) fn evaluate(
    source: &str,
    Judged { answer, payload, person }: Judged<'_>,
    budget: &Budget<'_>,
) -> Result<(Value, RawJson), String> {
    let program = Program::compile_within(source, Vocabulary::Answer, budget)
        .map_err(|messages| messages.join("; "))?;
    let name = |word: &str| Name::parse(word).map_err(|error| error.to_string());
    let known = BTreeMap::from([
        (name("answer")?, answer.clone()),
        (name("item")?, payload.clone()),
        (name("person")?, RawJson::of(person)),
    ]);
    let now = Timestamp::EPOCH;
    let event = EventScope { name: "", payload, time: now };
    let scope = Scope { context: &NOTHING, event, now, results: &known, response: None, budget };
    program.evaluate_both(&scope).map_err(|error| error.to_string())
}

//! Validates an answer against the rules of its queue and reports every problem at once.

use std::collections::BTreeMap;

use millstream_expr::{CelProgram, CelValue, EventScope, ExprBudget, ExprScope, ExprVocabulary};
use millstream_model::context::ExecutionContext;
use millstream_model::id::{Name, PersonId};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::limits::{MAX_ANSWER_BYTES, MAX_PROBLEMS};
use super::queue::QueueConfig;

static NOTHING: ExecutionContext = ExecutionContext::new();

/// Every problem of an answer; the answer is valid if the list is empty. `by_schema` holds the problems found
/// by the queue's JSON Schema: the rules are skipped for an answer of the wrong shape. All rules share one
/// `budget`; if its stop rule ended it, the answer has not been validated.
pub fn check_answer(
    queue: &QueueConfig,
    answer: &RawJson,
    payload: &RawJson,
    person: &PersonId,
    by_schema: Vec<ValidationProblem>,
    budget: &ExprBudget<'_>,
) -> Vec<ValidationProblem> {
    if answer.len() > MAX_ANSWER_BYTES {
        return vec![ValidationProblem::new(
            "",
            format!("the answer is larger than {} KiB", MAX_ANSWER_BYTES / 1024),
        )];
    }
    let mut problems = by_schema;
    if problems.is_empty() {
        let judged = AnswerScope { answer, payload, person };
        for (n, rule) in queue.rules.iter().enumerate() {
            match evaluate_expression(&rule.condition, judged, budget) {
                Ok((CelValue::Bool(false), _)) => {}
                Ok((CelValue::Bool(true), _)) => {
                    problems.push(ValidationProblem::new(&rule.path, &rule.message))
                }
                Ok((other, _)) => {
                    let message = format!("rule {n} must return true or false, it returned {}", other.kind());
                    problems.push(ValidationProblem::new(&rule.path, message));
                }
                Err(error) => {
                    let message = format!("{} (rule {n} failed: {error})", rule.message);
                    problems.push(ValidationProblem::new(&rule.path, message));
                }
            }
        }
        if let Err(error) = evaluate_expression(&queue.agreement, judged, budget) {
            let message = format!("the answer cannot be compared with other answers: {error}");
            problems.push(ValidationProblem::new("", message));
        }
    }
    if problems.len() > MAX_PROBLEMS {
        let more = problems.len() - MAX_PROBLEMS;
        problems.truncate(MAX_PROBLEMS);
        problems.push(ValidationProblem::new("", format!("and {more} more problems")));
    }
    problems
}

/// The variables of a queue's expressions.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerScope<'a> {
    pub(super) answer: &'a RawJson,
    pub(super) payload: &'a RawJson,
    pub(super) person: &'a PersonId,
}

/// Evaluates an expression over an answer. All expressions of one decision share one budget.
pub(super) fn evaluate_expression(
    source: &str,
    AnswerScope { answer, payload, person }: AnswerScope<'_>,
    budget: &ExprBudget<'_>,
) -> Result<(CelValue, RawJson), String> {
    let program = CelProgram::compile_within(source, ExprVocabulary::Answer, budget)
        .map_err(|messages| messages.join("; "))?;
    let name = |word: &str| Name::parse(word).map_err(|error| error.to_string());
    let known = BTreeMap::from([
        (name("answer")?, answer.clone()),
        (name("item")?, payload.clone()),
        (name("person")?, RawJson::from_value(person)),
    ]);
    let now = Timestamp::EPOCH;
    let event = EventScope { name: "", payload, time: now };
    let scope = ExprScope { context: &NOTHING, event, now, results: &known, response: None, budget };
    program.evaluate_both(&scope).map_err(|error| error.to_string())
}

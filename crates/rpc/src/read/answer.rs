//! Validates the answers of executors, which are untrusted.

use millstream_model::id::ExecutionId;
use millstream_model::problem::ValidationProblems;
use millstream_model::raw::RawJson;
use millstream_workflow::graph::limits::{MAX_EDITS, MAX_RESULT_BYTES};
use millstream_workflow::graph::{ExecutorAnswer, NodeEdit, NodeId, NodeStatus};

use super::edit::edits_at;
use super::text::{JsonOrigin, MessageReader};
use crate::path::FieldPath;
use crate::proto;
use crate::status::status_in;

/// Characters of an executor's error message that are kept.
pub const MAX_ERROR_CHARS: usize = 4096;

/// The request that an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub struct NodeQuestion<'a> {
    pub workflow: &'a ExecutionId,
    pub node: &'a NodeId,
    pub attempt: u32,
    pub executor: &'a str,
}

/// A valid answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeAnswer {
    /// Accepted; the outcome comes by `UpdateNode`.
    Later { logs: String },
    /// `known` is empty: the caller fills it from the store.
    Now { answer: Box<ExecutorAnswer>, logs: String },
}

/// An invalid answer: the node is `TASK_ERROR`, with this reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the executor's answer cannot be used: {0}")]
pub struct InvalidNodeAnswer(pub String);

impl From<ValidationProblems> for InvalidNodeAnswer {
    fn from(problems: ValidationProblems) -> Self {
        Self(problems.to_string())
    }
}

/// Reads the answer to `ExecuteNode`.
pub fn read_response(
    given: proto::ExecuteNodeResponse,
    asked: NodeQuestion<'_>,
) -> Result<NodeAnswer, InvalidNodeAnswer> {
    let (workflow, node) = (given.workflow_id.as_str(), given.node_id.as_str());
    if (workflow, node) != (asked.workflow.as_str(), asked.node.as_str()) {
        return Err(InvalidNodeAnswer(format!(
            "it has the ids of node {node:?} of the workflow {workflow:?}"
        )));
    }
    if given.accepted {
        return read_accepted(given);
    }
    let proto::ExecuteNodeResponse { status, results_json, error, edits, logs, .. } = given;
    let answer = read_answer(ReportedOutcome { status, results_json, error, edits }, asked)?;
    Ok(NodeAnswer::Now { answer: Box::new(answer), logs })
}

fn read_accepted(given: proto::ExecuteNodeResponse) -> Result<NodeAnswer, InvalidNodeAnswer> {
    let unspecified = given.status == i32::from(proto::NodeStatus::Unspecified);
    if unspecified && given.results_json.is_empty() && given.error.is_empty() && given.edits.is_empty() {
        Ok(NodeAnswer::Later { logs: given.logs })
    } else {
        Err(InvalidNodeAnswer("it is both accepted for later and has an outcome".into()))
    }
}

/// Reads the result in an `UpdateNode`: the answer, and its log. The store checks whether the attempt is
/// the current one.
pub fn read_result(
    given: proto::NodeResult,
    asked: NodeQuestion<'_>,
) -> Result<(ExecutorAnswer, String), ValidationProblems> {
    let proto::NodeResult { of: _, status, results_json, error, edits, logs } = given;
    Ok((read_answer(ReportedOutcome { status, results_json, error, edits }, asked)?, logs))
}

struct ReportedOutcome {
    status: i32,
    results_json: String,
    error: String,
    edits: Vec<proto::NodeEdit>,
}

fn read_answer(
    given: ReportedOutcome,
    asked: NodeQuestion<'_>,
) -> Result<ExecutorAnswer, ValidationProblems> {
    let mut reading = MessageReader::new(JsonOrigin::Checked);
    let at = FieldPath::ROOT;
    let status = outcome_status(given.status, &at.field("status"), &mut reading);
    let result = read_results(&given.results_json, &at.field("results_json"), &mut reading);
    let edits = read_answer_edits(given.edits, &at.field("edits"), &mut reading);
    let error: String = given.error.chars().take(MAX_ERROR_CHARS).collect();
    let answer = status.map(|status| ExecutorAnswer {
        status,
        attempt: asked.attempt,
        result,
        error: (!error.is_empty()).then_some(error),
        edits,
        known: Vec::new(),
        executor: Some(asked.executor.to_owned()),
    });
    reading.faults.finish_with(answer)
}

/// Accepts only outcomes of work: an executor cannot report a node as skipped.
fn outcome_status(number: i32, at: &FieldPath<'_>, reading: &mut MessageReader) -> Option<NodeStatus> {
    match status_in(number) {
        Some(status) if status == NodeStatus::Pass || status.is_failure() => Some(status),
        Some(status) => {
            reading.add_fault(at, format!("{status} is not the outcome of an attempt"));
            None
        }
        None => {
            reading.add_fault(at, format!("{number} is not a status"));
            None
        }
    }
}

fn read_results(text: &str, at: &FieldPath<'_>, reading: &mut MessageReader) -> Option<RawJson> {
    if text.len() > MAX_RESULT_BYTES {
        reading.add_fault(at, format!("is {} bytes long, at most {MAX_RESULT_BYTES} are kept", text.len()));
        return None;
    }
    reading.read_json(text, at)
}

fn read_answer_edits(
    given: Vec<proto::NodeEdit>,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Vec<NodeEdit> {
    if given.len() > MAX_EDITS {
        reading.add_fault(at, format!("has {} items, at most {MAX_EDITS} are allowed", given.len()));
        return Vec::new();
    }
    edits_at(given, at, reading)
}

//! Validates the answers of executors, which are untrusted.

use millstream_core::graph::limits::{MAX_EDITS, MAX_RESULT_BYTES};
use millstream_core::graph::{Answer, NodeEdit, NodeId, NodeStatus};
use millstream_core::id::ExecutionId;
use millstream_core::problem::Problems;
use millstream_core::raw::RawJson;

use super::edit::edits_at;
use super::text::{Json, Reading};
use crate::path::Path;
use crate::proto;
use crate::status::status_in;

/// Characters of an executor's error message that are kept.
pub const MAX_ERROR_CHARS: usize = 4096;

/// The request that an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub workflow: &'a ExecutionId,
    pub node: &'a NodeId,
    pub attempt: u32,
    pub executor: &'a str,
}

/// A valid answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Accepted; the outcome comes by `UpdateNode`.
    Later { logs: String },
    /// `known` is empty: the caller fills it from the store.
    Now { answer: Box<Answer>, logs: String },
}

/// An invalid answer: the node is `TASK_ERROR`, with this reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the executor's answer cannot be used: {0}")]
pub struct Garbage(pub String);

impl From<Problems> for Garbage {
    fn from(problems: Problems) -> Self {
        Self(problems.to_string())
    }
}

/// Reads the answer to `ExecuteNode`.
pub fn response(given: proto::ExecuteNodeResponse, asked: Asked<'_>) -> Result<Heard, Garbage> {
    let (workflow, node) = (given.workflow_id.as_str(), given.node_id.as_str());
    if (workflow, node) != (asked.workflow.as_str(), asked.node.as_str()) {
        return Err(Garbage(format!("it has the ids of node {node:?} of the workflow {workflow:?}")));
    }
    if given.accepted {
        return later(given);
    }
    let proto::ExecuteNodeResponse { status, results_json, error, edits, logs, .. } = given;
    let answer = answer(Outcome { status, results_json, error, edits }, asked)?;
    Ok(Heard::Now { answer: Box::new(answer), logs })
}

fn later(given: proto::ExecuteNodeResponse) -> Result<Heard, Garbage> {
    let unspecified = given.status == i32::from(proto::NodeStatus::Unspecified);
    if unspecified && given.results_json.is_empty() && given.error.is_empty() && given.edits.is_empty() {
        Ok(Heard::Later { logs: given.logs })
    } else {
        Err(Garbage("it is both accepted for later and has an outcome".into()))
    }
}

/// Reads the result in an `UpdateNode`: the answer, and its log. The store checks whether the attempt is
/// the current one.
pub fn result(given: proto::NodeResult, asked: Asked<'_>) -> Result<(Answer, String), Problems> {
    let proto::NodeResult { of: _, status, results_json, error, edits, logs } = given;
    Ok((answer(Outcome { status, results_json, error, edits }, asked)?, logs))
}

struct Outcome {
    status: i32,
    results_json: String,
    error: String,
    edits: Vec<proto::NodeEdit>,
}

fn answer(given: Outcome, asked: Asked<'_>) -> Result<Answer, Problems> {
    let mut reading = Reading::new(Json::Checked);
    let at = Path::ROOT;
    let status = outcome_status(given.status, &at.field("status"), &mut reading);
    let result = results(&given.results_json, &at.field("results_json"), &mut reading);
    let edits = edits(given.edits, &at.field("edits"), &mut reading);
    let error: String = given.error.chars().take(MAX_ERROR_CHARS).collect();
    let answer = status.map(|status| Answer {
        status,
        attempt: asked.attempt,
        result,
        error: (!error.is_empty()).then_some(error),
        edits,
        known: Vec::new(),
        executor: Some(asked.executor.to_owned()),
    });
    reading.faults.or(answer)
}

/// Accepts only outcomes of work: an executor cannot report a node as skipped.
fn outcome_status(number: i32, at: &Path<'_>, reading: &mut Reading) -> Option<NodeStatus> {
    match status_in(number) {
        Some(status) if status == NodeStatus::Pass || status.is_failure() => Some(status),
        Some(status) => {
            reading.fault(at, format!("{status} is not the outcome of an attempt"));
            None
        }
        None => {
            reading.fault(at, format!("{number} is not a status"));
            None
        }
    }
}

fn results(text: &str, at: &Path<'_>, reading: &mut Reading) -> Option<RawJson> {
    if text.len() > MAX_RESULT_BYTES {
        reading.fault(at, format!("is {} bytes long, at most {MAX_RESULT_BYTES} are kept", text.len()));
        return None;
    }
    reading.json(text, at)
}

fn edits(given: Vec<proto::NodeEdit>, at: &Path<'_>, reading: &mut Reading) -> Vec<NodeEdit> {
    if given.len() > MAX_EDITS {
        reading.fault(at, format!("has {} items, at most {MAX_EDITS} are allowed", given.len()));
        return Vec::new();
    }
    edits_at(given, at, reading)
}

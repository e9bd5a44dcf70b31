//! The outcome of an attempt at a node: its effect, its retry, and the transitions that follow.

use millstream_expr::ExprBudget;
use millstream_model::attempt::ActionFailure;
use millstream_model::error_class::ErrorClass;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use serde::Deserialize;

use super::admit::NodeRetryCause;
use super::propagate::GraphPropagation;
use crate::graph::limits::MAX_RESULT_BYTES;
use crate::graph::{
    ExecutorAnswer, Graph, GraphPatch, Node, NodeChange, NodeId, NodeOutcome, NodeStatus, apply_with_known,
    build_patch, why,
};

/// The effect of an outcome: its patch, the graph with that patch, and the transitions that follow.
pub(super) struct NodeOutcomeEffect<'b> {
    pub(super) patched: Option<(GraphPatch, Graph)>,
    pub(super) ripple: GraphPropagation<'b>,
}

/// Decides an outcome; `Err` is the reason of the rejection.
pub(super) fn decide_outcome<'b>(
    graph: &Graph,
    payload: &RawJson,
    at: Timestamp,
    budget: &'b ExprBudget<'b>,
) -> Result<NodeOutcomeEffect<'b>, String> {
    let told = read_outcome(payload)?;
    let id = &told.action;
    let node = graph.nodes.get(id).ok_or_else(|| format!("there is no node {:?}", id.as_str()))?;
    if node.status != NodeStatus::Running {
        return Err(format!("stale outcome: {id} is {}", node.status));
    }
    if node.spec.fan_out.is_some() {
        return Err(format!("{id} is a fan-out: its items are performed, not itself"));
    }
    let mut answer = answer_of_outcome(told.result, told.error, node.attempt);
    if answer.attempt != node.attempt {
        let (late, current) = (answer.attempt, node.attempt);
        return Err(format!("stale outcome: attempt {late} at {id} is over, {current} is under way"));
    }
    let patched = match patch_of_answer(graph, &answer, budget) {
        Ok(patched) => patched,
        Err(problems) => {
            answer = failed_answer(
                node.attempt,
                NodeStatus::TaskError,
                format!("its edits are invalid: {problems}"),
            );
            None
        }
    };
    let graph = patched.as_ref().map_or(graph, |(_, graph)| graph);
    // The patch may have added children that mention the node's result.
    let node = graph.nodes.get(id).unwrap_or(node);
    let mut ripple = GraphPropagation::new(budget);
    let retry = graph.options.retry_of(&node.spec);
    let error = answer.error.as_deref().unwrap_or_default();
    match retry.backoff_after(node.attempt, answer.status) {
        Some(wait) => ripple.dispatch_retry(
            graph,
            node,
            &NodeRetryCause {
                status: answer.status,
                error,
                executor: answer.executor.as_deref(),
                not_before: at.plus(wait),
                attempts: retry.attempts,
            },
        ),
        None => ripple.record_outcome(end_attempt(node, &answer)),
    }
    if let Some((patch, graph)) = &patched {
        ripple.evaluate_ready(graph, patch.affected_nodes());
    }
    ripple.propagate_ends(graph);
    ripple.dispatch_ready(graph);
    Ok(NodeOutcomeEffect { patched, ripple })
}

fn end_attempt(node: &Node, answer: &ExecutorAnswer) -> NodeChange {
    // A node that passed without a result has the result null, so that expressions can mention it.
    let nothing = (answer.status == NodeStatus::Pass).then(RawJson::null);
    let result = answer.result.as_ref().or(nothing.as_ref());
    NodeChange {
        id: node.spec.id.clone(),
        status: answer.status,
        attempt: node.attempt,
        why: answer.error.as_deref().filter(|error| !error.is_empty()).map(why::shorten_text),
        kept: node.kept_result(result),
        avoid: Vec::new(),
    }
}

/// The patch of an answer that passed. Other answers change their own node only.
fn patch_of_answer(
    graph: &Graph,
    answer: &ExecutorAnswer,
    budget: &ExprBudget<'_>,
) -> Result<Option<(GraphPatch, Graph)>, String> {
    if answer.status != NodeStatus::Pass || answer.edits.is_empty() {
        return Ok(None);
    }
    let patch = build_patch(graph, &answer.edits, budget).map_err(|problems| problems.to_string())?;
    Ok(Some(apply_with_known(graph, patch, &answer.known)))
}

/// An unreadable outcome fails its node, which would otherwise never end.
fn read_outcome(payload: &RawJson) -> Result<NodeOutcome, String> {
    #[derive(Deserialize)]
    struct NodeOutcomeTarget {
        action: NodeId,
    }
    payload.decode::<NodeOutcome>().or_else(|error| {
        let NodeOutcomeTarget { action } =
            payload.decode().map_err(|_| format!("the outcome cannot be read: {error}"))?;
        let message = format!("the answer cannot be read: {error}");
        let error = ActionFailure { class: ErrorClass::Response, message, status: None };
        Ok(NodeOutcome { action, result: None, error: Some(error) })
    })
}

fn answer_of_outcome(
    result: Option<ExecutorAnswer>,
    error: Option<ActionFailure>,
    attempt: u32,
) -> ExecutorAnswer {
    if let Some(error) = error {
        return failed_answer(attempt, status_of_error(&error.class), error.message);
    }
    let unusable = |message: String| failed_answer(attempt, NodeStatus::TaskError, message);
    let Some(answer) = result else { return unusable("there is no answer".to_owned()) };
    if answer.attempt != attempt {
        return answer;
    }
    if !answer.status.is_ended() {
        return unusable(format!("an answer cannot be {}", answer.status));
    }
    match &answer.result {
        Some(result) if result.len() > MAX_RESULT_BYTES => {
            let (size, limit) = (result.len() / 1024, MAX_RESULT_BYTES / 1024);
            unusable(format!("the result has {size} KiB, at most {limit} KiB are allowed"))
        }
        Some(_) | None => answer,
    }
}

fn failed_answer(attempt: u32, status: NodeStatus, error: String) -> ExecutorAnswer {
    ExecutorAnswer {
        status,
        attempt,
        result: None,
        error: Some(error),
        edits: Vec::new(),
        known: Vec::new(),
        executor: None,
    }
}

/// The node status for a failure within the engine.
fn status_of_error(class: &ErrorClass) -> NodeStatus {
    match class {
        ErrorClass::Timeout | ErrorClass::Heartbeat => NodeStatus::Timeout,
        ErrorClass::Network | ErrorClass::Schedule | ErrorClass::Target | ErrorClass::Internal => {
            NodeStatus::InfraError
        }
        ErrorClass::Input
        | ErrorClass::Status
        | ErrorClass::Response
        | ErrorClass::Forbidden
        | ErrorClass::Secret
        | ErrorClass::Quota
        | ErrorClass::Output
        | ErrorClass::Corrupt
        | ErrorClass::Failed
        | ErrorClass::Custom(_) => NodeStatus::TaskError,
        ErrorClass::Child => NodeStatus::Fail,
    }
}

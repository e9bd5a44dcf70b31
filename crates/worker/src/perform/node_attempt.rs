//! What all attempts at graph nodes share: the record of the dispatch, and the answer of a failed attempt.

use millstream_store::StoreResult;
use millstream_store::action_store::LeasedAction;
use millstream_store::graph_store::{DispatchContext, NodeDispatch};
use millstream_workflow::graph::{ExecutorAnswer, NodeInput, NodeStatus};

use super::performer::ActionPerformer;
use crate::executors::ExecutorPlace;

/// Records which executor performs it; returns the content of the request.
pub(super) async fn record_dispatch(
    performer: &ActionPerformer,
    action: &LeasedAction,
    input: &NodeInput,
    executor: &str,
    reason: &str,
) -> StoreResult<Option<DispatchContext>> {
    let dispatch = NodeDispatch {
        execution: action.lease.key.execution.clone(),
        node: input.node.clone(),
        attempt: input.attempt,
        executor: executor.to_owned(),
        reason: reason.to_owned(),
    };
    performer.dispatches.record_dispatch(dispatch).await
}

pub(super) fn failed_answer(
    input: &NodeInput,
    status: NodeStatus,
    error: String,
    place: Option<&ExecutorPlace>,
) -> ExecutorAnswer {
    ExecutorAnswer {
        status,
        attempt: input.attempt,
        result: None,
        error: Some(error),
        edits: Vec::new(),
        known: Vec::new(),
        executor: place.map(|place| place.name.as_str().to_owned()),
    }
}

//! Encodes events of a workflow for watchers.

use millstream_model::id::{ExecutionId, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_workflow::graph::NodeSpecUpdate;
use millstream_workflow::graph_machine::GraphTransitionNotice;
use serde::Deserialize;

use crate::length::time_out;
use crate::proto;
use crate::proto::workflow_event::What;
use crate::spec_messages::encode_node_spec;
use crate::status::status_out;
use crate::unreadable::StoredFormError;

/// Position and time of an event.
#[derive(Debug, Clone)]
pub struct WorkflowEventHead<'a> {
    /// Resume position of a watcher, which the server assigns.
    pub position: String,
    pub workflow: &'a ExecutionId,
    pub at: Timestamp,
}

/// One notice of the transition `seq`.
pub fn notice_event(
    occasion: WorkflowEventHead<'_>,
    seq: Seq,
    notice: &GraphTransitionNotice,
) -> proto::WorkflowEvent {
    build_event(occasion, seq.0, encode_notice(notice))
}

/// One dispatch, which has no transition on the log.
pub fn dispatch_event(
    occasion: WorkflowEventHead<'_>,
    dispatched: proto::NodeDispatched,
) -> proto::WorkflowEvent {
    build_event(occasion, 0, What::NodeDispatched(dispatched))
}

/// One element of [`Fed::StoredDispatch`](millstream_store::feed::FeedContent).
#[derive(Debug, Deserialize)]
struct StoredDispatch {
    node: String,
    attempt: u32,
    executor: String,
    #[serde(default)]
    reason: String,
}

/// The dispatches of a feed entry, in its order.
pub fn decode_dispatches(stored: &RawJson) -> Result<Vec<proto::NodeDispatched>, StoredFormError> {
    let dispatched: Vec<StoredDispatch> =
        stored.decode().map_err(|error| StoredFormError::new("the stored dispatches", error))?;
    let message = |StoredDispatch { node, attempt, executor, reason }| proto::NodeDispatched {
        node_id: node,
        attempt,
        executor,
        reason,
    };
    Ok(dispatched.into_iter().map(message).collect())
}

fn build_event(occasion: WorkflowEventHead<'_>, seq: i64, what: What) -> proto::WorkflowEvent {
    proto::WorkflowEvent {
        position: occasion.position,
        workflow_id: occasion.workflow.as_str().to_owned(),
        at: Some(time_out(occasion.at)),
        seq,
        what: Some(what),
    }
}

fn encode_notice(notice: &GraphTransitionNotice) -> What {
    match notice {
        GraphTransitionNotice::Created { name, creator, nodes } => What::Created(proto::WorkflowCreated {
            name: name.clone(),
            creator: creator.clone().unwrap_or_default(),
            nodes: clamp_count(*nodes),
        }),
        GraphTransitionNotice::Edited { revision, inserted, updated, deleted } => {
            What::Edited(proto::WorkflowEdited {
                revision: *revision,
                inserted: inserted.iter().map(|node| encode_node_spec(node)).collect(),
                updated: updated.iter().map(encode_update).collect(),
                deleted: deleted.iter().map(|id| id.as_str().to_owned()).collect(),
            })
        }
        GraphTransitionNotice::Expanded { node, instances, revision } => {
            What::NodeExpanded(proto::NodeExpanded {
                node_id: node.as_str().to_owned(),
                instances: clamp_count(*instances),
                revision: *revision,
            })
        }
        GraphTransitionNotice::Scheduled { node, attempt, why } => {
            What::NodeScheduled(proto::NodeScheduled {
                node_id: node.as_str().to_owned(),
                attempt: *attempt,
                why: why.clone().unwrap_or_default(),
            })
        }
        GraphTransitionNotice::Retried { node, attempt, why } => What::NodeRetried(proto::NodeRetried {
            node_id: node.as_str().to_owned(),
            attempt: *attempt,
            why: why.clone().unwrap_or_default(),
        }),
        GraphTransitionNotice::NodeCompleted { node, status, attempt, why } => {
            What::NodeCompleted(proto::NodeCompleted {
                node_id: node.as_str().to_owned(),
                status: status_out(*status).into(),
                attempt: *attempt,
                why: why.clone().unwrap_or_default(),
            })
        }
        GraphTransitionNotice::Completed => encode_end(proto::WorkflowStatus::Passed, None),
        GraphTransitionNotice::Failed { reason } => {
            encode_end(proto::WorkflowStatus::Failed, reason.as_ref())
        }
        GraphTransitionNotice::Cancelled { reason } => {
            encode_end(proto::WorkflowStatus::Cancelled, reason.as_ref())
        }
    }
}

fn encode_update(updated: &NodeSpecUpdate) -> proto::NodeUpdate {
    proto::NodeUpdate { was: Some(encode_node_spec(&updated.was)), is: Some(encode_node_spec(&updated.is)) }
}

fn encode_end(status: proto::WorkflowStatus, reason: Option<&String>) -> What {
    What::Ended(proto::WorkflowEnded { status: status.into(), reason: reason.cloned().unwrap_or_default() })
}

fn clamp_count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

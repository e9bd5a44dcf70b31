//! Encodes events of a workflow for watchers.

use millstream_core::graph::{Notice, Updated};
use millstream_core::id::{ExecutionId, Seq};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use serde::Deserialize;

use super::spec;
use crate::length::time_out;
use crate::proto;
use crate::proto::workflow_event::What;
use crate::status::status_out;
use crate::unreadable::Unreadable;

/// Position and time of an event.
#[derive(Debug, Clone)]
pub struct Occasion<'a> {
    /// Resume position of a watcher, which the server assigns.
    pub position: String,
    pub workflow: &'a ExecutionId,
    pub at: Timestamp,
}

/// One notice of the transition `seq`.
pub fn notice_event(occasion: Occasion<'_>, seq: Seq, notice: &Notice) -> proto::WorkflowEvent {
    event(occasion, seq.0, what(notice))
}

/// One dispatch, which has no transition on the log.
pub fn dispatch_event(occasion: Occasion<'_>, dispatched: proto::NodeDispatched) -> proto::WorkflowEvent {
    event(occasion, 0, What::NodeDispatched(dispatched))
}

/// One element of [`Fed::Dispatched`](millstream_store::feed::Fed).
#[derive(Debug, Deserialize)]
struct Dispatched {
    node: String,
    attempt: u32,
    executor: String,
    #[serde(default)]
    reason: String,
}

/// The dispatches of a feed entry, in its order.
pub fn dispatches(stored: &RawJson) -> Result<Vec<proto::NodeDispatched>, Unreadable> {
    let dispatched: Vec<Dispatched> =
        stored.decode().map_err(|error| Unreadable::new("the stored dispatches", error))?;
    let message = |Dispatched { node, attempt, executor, reason }| proto::NodeDispatched {
        node_id: node,
        attempt,
        executor,
        reason,
    };
    Ok(dispatched.into_iter().map(message).collect())
}

fn event(occasion: Occasion<'_>, seq: i64, what: What) -> proto::WorkflowEvent {
    proto::WorkflowEvent {
        position: occasion.position,
        workflow_id: occasion.workflow.as_str().to_owned(),
        at: Some(time_out(occasion.at)),
        seq,
        what: Some(what),
    }
}

fn what(notice: &Notice) -> What {
    match notice {
        Notice::Created { name, creator, nodes } => What::Created(proto::WorkflowCreated {
            name: name.clone(),
            creator: creator.clone().unwrap_or_default(),
            nodes: count(*nodes),
        }),
        Notice::Edited { revision, inserted, updated, deleted } => What::Edited(proto::WorkflowEdited {
            revision: *revision,
            inserted: inserted.iter().map(|node| spec::node(node)).collect(),
            updated: updated.iter().map(update).collect(),
            deleted: deleted.iter().map(|id| id.as_str().to_owned()).collect(),
        }),
        Notice::Expanded { node, instances, revision } => What::NodeExpanded(proto::NodeExpanded {
            node_id: node.as_str().to_owned(),
            instances: count(*instances),
            revision: *revision,
        }),
        Notice::Scheduled { node, attempt, why } => What::NodeScheduled(proto::NodeScheduled {
            node_id: node.as_str().to_owned(),
            attempt: *attempt,
            why: why.clone().unwrap_or_default(),
        }),
        Notice::Retried { node, attempt, why } => What::NodeRetried(proto::NodeRetried {
            node_id: node.as_str().to_owned(),
            attempt: *attempt,
            why: why.clone().unwrap_or_default(),
        }),
        Notice::NodeCompleted { node, status, attempt, why } => What::NodeCompleted(proto::NodeCompleted {
            node_id: node.as_str().to_owned(),
            status: status_out(*status).into(),
            attempt: *attempt,
            why: why.clone().unwrap_or_default(),
        }),
        Notice::Completed => ended(proto::WorkflowStatus::Passed, None),
        Notice::Failed { reason } => ended(proto::WorkflowStatus::Failed, reason.as_ref()),
        Notice::Cancelled { reason } => ended(proto::WorkflowStatus::Cancelled, reason.as_ref()),
    }
}

fn update(updated: &Updated) -> proto::NodeUpdate {
    proto::NodeUpdate { was: Some(spec::node(&updated.was)), is: Some(spec::node(&updated.is)) }
}

fn ended(status: proto::WorkflowStatus, reason: Option<&String>) -> What {
    What::Ended(proto::WorkflowEnded { status: status.into(), reason: reason.cloned().unwrap_or_default() })
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

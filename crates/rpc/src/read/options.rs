//! Reads the options of workflows and of nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_workflow::graph::{GraphOptions, NodeOptions, NodeRetry, NodeStatus};

use super::text::MessageReader;
use crate::length::length_in;
use crate::path::FieldPath;
use crate::proto;
use crate::status::status_in;

pub(crate) fn read_workflow_options(
    given: Option<proto::WorkflowOptions>,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> GraphOptions {
    let Some(proto::WorkflowOptions { timeout, max_parallel, node }) = given else {
        return GraphOptions::default();
    };
    GraphOptions {
        timeout: read_length(timeout, &at.field("timeout"), reading),
        max_parallel,
        node: read_node_options(node, &at.field("node"), reading),
    }
}

pub(super) fn read_node_options(
    given: Option<proto::ExecutionOptions>,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> NodeOptions {
    let Some(proto::ExecutionOptions { timeout, retry }) = given else { return NodeOptions::default() };
    NodeOptions {
        timeout: read_length(timeout, &at.field("timeout"), reading),
        retry: retry.map(|retry| self::read_retry(retry, &at.field("retry"), reading)),
    }
}

fn read_retry(given: proto::RetryOptions, at: &FieldPath<'_>, reading: &mut MessageReader) -> NodeRetry {
    let proto::RetryOptions { attempts, backoff, max_backoff, on } = given;
    let usual = NodeRetry::default();
    NodeRetry {
        attempts: attempts.unwrap_or(usual.attempts),
        backoff: read_length(backoff, &at.field("backoff"), reading).unwrap_or(usual.backoff),
        max: read_length(max_backoff, &at.field("max_backoff"), reading).unwrap_or(usual.max),
        on: read_statuses(&on, &at.field("on"), reading).unwrap_or(usual.on),
    }
}

/// `None`: not given. Only `UNSPECIFIED`: no retries, which an empty list cannot express.
fn read_statuses(
    given: &[i32],
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Option<BTreeSet<NodeStatus>> {
    match given {
        [] => return None,
        [only] if *only == i32::from(proto::NodeStatus::Unspecified) => return Some(BTreeSet::new()),
        _ => {}
    }
    let mut statuses = BTreeSet::new();
    for (index, number) in given.iter().enumerate() {
        match status_in(*number) {
            Some(status) => {
                statuses.insert(status);
            }
            None => reading.add_fault(&at.at(index), format!("{number} is not a status")),
        }
    }
    Some(statuses)
}

fn read_length(
    given: Option<prost_types::Duration>,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Option<Duration> {
    length_in(&given?, at, &mut reading.faults)
}

//! Reads the options of workflows and of nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_core::graph::{GraphOptions, NodeOptions, NodeRetry, NodeStatus};

use super::text::Reading;
use crate::length::length_in;
use crate::path::Path;
use crate::proto;
use crate::status::status_in;

pub(crate) fn workflow_options(
    given: Option<proto::WorkflowOptions>,
    at: &Path<'_>,
    reading: &mut Reading,
) -> GraphOptions {
    let Some(proto::WorkflowOptions { timeout, max_parallel, node }) = given else {
        return GraphOptions::default();
    };
    GraphOptions {
        timeout: length(timeout, &at.field("timeout"), reading),
        max_parallel,
        node: node_options(node, &at.field("node"), reading),
    }
}

pub(super) fn node_options(
    given: Option<proto::ExecutionOptions>,
    at: &Path<'_>,
    reading: &mut Reading,
) -> NodeOptions {
    let Some(proto::ExecutionOptions { timeout, retry }) = given else { return NodeOptions::default() };
    NodeOptions {
        timeout: length(timeout, &at.field("timeout"), reading),
        retry: retry.map(|retry| self::retry(retry, &at.field("retry"), reading)),
    }
}

fn retry(given: proto::RetryOptions, at: &Path<'_>, reading: &mut Reading) -> NodeRetry {
    let proto::RetryOptions { attempts, backoff, max_backoff, on } = given;
    let usual = NodeRetry::default();
    NodeRetry {
        attempts: attempts.unwrap_or(usual.attempts),
        backoff: length(backoff, &at.field("backoff"), reading).unwrap_or(usual.backoff),
        max: length(max_backoff, &at.field("max_backoff"), reading).unwrap_or(usual.max),
        on: statuses(&on, &at.field("on"), reading).unwrap_or(usual.on),
    }
}

/// `None`: not given. Only `UNSPECIFIED`: no retries, which an empty list cannot express.
fn statuses(given: &[i32], at: &Path<'_>, reading: &mut Reading) -> Option<BTreeSet<NodeStatus>> {
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
            None => reading.fault(&at.at(index), format!("{number} is not a status")),
        }
    }
    Some(statuses)
}

fn length(given: Option<prost_types::Duration>, at: &Path<'_>, reading: &mut Reading) -> Option<Duration> {
    length_in(&given?, at, &mut reading.faults)
}

//! A node that starts a child (a graph or an execution), whose end is the node's outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_core::action::Attempt;
use millstream_core::definition::ParentClose;
use millstream_core::graph::{NodeInput, NodeSpec, NodeStatus};
use millstream_core::machine::StartInput;
use millstream_core::raw::RawJson;
use millstream_store::Result;
use millstream_store::action_store::LeasedAction;
use millstream_store::graph_store::DispatchContext;

use super::errand::{Credentials, Done};
use super::node::{failed, record};
use super::start::{self, Child};
use crate::worker::Worker;

/// Name of the executor, in the feed and in the node's row.
const EXECUTOR: &str = "child";

pub(crate) async fn perform(
    worker: &Worker,
    action: &LeasedAction,
    input: &NodeInput,
    credentials: &Credentials,
) -> Result<Done> {
    let reason = "the node is an execution of its own";
    let Some(context) = record(worker, action, input, EXECUTOR, reason).await? else {
        return Ok(refused(input, "the node is gone".to_owned()));
    };
    let child = match child(input, &context) {
        Ok(child) => child,
        Err(reason) => return Ok(refused(input, reason)),
    };
    let limit = Duration::from_millis(input.timeout_ms);
    if worker.now().since(action.ready_at) >= limit {
        start::cancel_children(worker, action, &child).await;
        let message = format!("the child has not ended within {limit:?}");
        return Ok(told(input, NodeStatus::Timeout, message));
    }
    let until = action.ready_at.plus(limit);
    Ok(match start::begin_child(worker, action, &child, credentials).await? {
        Done::Awaiting { until: None } => Done::Awaiting { until: Some(until) },
        Done::Awaiting { until: Some(soon) } => Done::Awaiting { until: Some(soon.min(until)) },
        Done::Attempt(Attempt::Permanent { error }) => refused(input, error.message),
        other @ (Done::Attempt(_)
        | Done::Told(_)
        | Done::Postponed { .. }
        | Done::OverQuota { .. }
        | Done::Lost) => other,
    })
}

fn refused(input: &NodeInput, reason: String) -> Done {
    told(input, NodeStatus::TaskError, reason)
}

fn told(input: &NodeInput, status: NodeStatus, message: String) -> Done {
    let answer = failed(input, status, message, None);
    Done::Attempt(Attempt::Success { result: RawJson::of(&answer) })
}

/// The child to start: the node's own graph or execution; its input gets the node's dependencies by name.
fn child(input: &NodeInput, context: &DispatchContext) -> std::result::Result<Child, String> {
    let spec: NodeSpec = context.spec.decode().map_err(|error| format!("unreadable node: {error}"))?;
    let mut handed: BTreeMap<String, RawJson> = BTreeMap::new();
    for (name, node) in &spec.task.dependencies {
        let upstream = context.upstream.iter().find(|upstream| upstream.node == *node);
        let result = upstream.and_then(|upstream| upstream.result.clone());
        handed.insert(name.clone(), result.unwrap_or_else(RawJson::null));
    }
    if let Some((_, item)) = &context.instance {
        handed.insert("item".to_owned(), item.clone());
    }
    match (&spec.graph, &spec.execution) {
        (Some(graph), _) => {
            let mut graph = (**graph).clone();
            graph.input = merged(&graph.input, handed, "graph.input")?;
            Ok(Child::Graph(Box::new(graph)))
        }
        (None, Some(execution)) => Ok(Child::Execution(StartInput {
            definition: execution.definition.clone(),
            version: execution.version,
            execution_id: None,
            input: merged(&execution.input, handed, "execution.input")?,
            parent_close: ParentClose::Cancel,
        })),
        (None, None) => Err(format!("{:?} is neither a graph nor an execution", input.node.as_str())),
    }
}

fn merged(
    input: &RawJson,
    handed: BTreeMap<String, RawJson>,
    path: &str,
) -> std::result::Result<RawJson, String> {
    let fields: Option<BTreeMap<String, RawJson>> =
        input.decode().map_err(|_| format!("{path}: must be an object"))?;
    let mut fields = fields.unwrap_or_default();
    fields.extend(handed);
    Ok(RawJson::of(&fields))
}

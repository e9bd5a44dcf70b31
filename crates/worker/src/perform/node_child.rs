//! A node that starts a child (a graph or an execution), whose end is the node's outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_model::attempt::AttemptOutcome;
use millstream_model::raw::RawJson;
use millstream_store::StoreResult;
use millstream_store::action_store::LeasedAction;
use millstream_store::graph_store::DispatchContext;
use millstream_workflow::definition::ParentClose;
use millstream_workflow::graph::{NodeInput, NodeSpec, NodeStatus};
use millstream_workflow::machine::StartInput;

use super::attempt_contract::{AttemptCredentials, PerformOutcome};
use super::node_attempt::{failed_answer, record_dispatch};
use super::performer::ActionPerformer;
use super::start::{self, ChildStart};

/// Name of the executor, in the feed and in the node's row.
const EXECUTOR: &str = "child";

pub(crate) async fn perform_node_child(
    performer: &ActionPerformer,
    action: &LeasedAction,
    input: &NodeInput,
    credentials: &AttemptCredentials,
) -> StoreResult<PerformOutcome> {
    let reason = "the node is an execution of its own";
    let Some(context) = record_dispatch(performer, action, input, EXECUTOR, reason).await? else {
        return Ok(refused_node(input, "the node is gone".to_owned()));
    };
    let child = match child_of_node(input, &context) {
        Ok(child) => child,
        Err(reason) => return Ok(refused_node(input, reason)),
    };
    let limit = Duration::from_millis(input.timeout_ms);
    if performer.env.now().since(action.ready_at) >= limit {
        start::cancel_children(performer, action, &child).await;
        let message = format!("the child has not ended within {limit:?}");
        return Ok(failed_node(input, NodeStatus::Timeout, message));
    }
    let until = action.ready_at.plus(limit);
    Ok(match start::begin_child(performer, action, &child, credentials).await? {
        PerformOutcome::Awaiting { until: None } => PerformOutcome::Awaiting { until: Some(until) },
        PerformOutcome::Awaiting { until: Some(soon) } => {
            PerformOutcome::Awaiting { until: Some(soon.min(until)) }
        }
        PerformOutcome::Attempt(AttemptOutcome::Permanent { error }) => refused_node(input, error.message),
        other @ (PerformOutcome::Attempt(_)
        | PerformOutcome::ItemEnded(_)
        | PerformOutcome::Postponed { .. }
        | PerformOutcome::Lost) => other,
    })
}

fn refused_node(input: &NodeInput, reason: String) -> PerformOutcome {
    failed_node(input, NodeStatus::TaskError, reason)
}

fn failed_node(input: &NodeInput, status: NodeStatus, message: String) -> PerformOutcome {
    let answer = failed_answer(input, status, message, None);
    PerformOutcome::Attempt(AttemptOutcome::Success { result: RawJson::from_value(&answer) })
}

/// The child to start: the node's own graph or execution; its input gets the node's dependencies by name.
fn child_of_node(input: &NodeInput, context: &DispatchContext) -> std::result::Result<ChildStart, String> {
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
            graph.input = merge_input(&graph.input, handed, "graph.input")?;
            Ok(ChildStart::Graph(Box::new(graph)))
        }
        (None, Some(execution)) => Ok(ChildStart::Execution(StartInput {
            definition: execution.definition.clone(),
            version: execution.version,
            execution_id: None,
            input: merge_input(&execution.input, handed, "execution.input")?,
            parent_close: ParentClose::Cancel,
        })),
        (None, None) => Err(format!("{:?} is neither a graph nor an execution", input.node.as_str())),
    }
}

fn merge_input(
    input: &RawJson,
    handed: BTreeMap<String, RawJson>,
    path: &str,
) -> std::result::Result<RawJson, String> {
    let fields: Option<BTreeMap<String, RawJson>> =
        input.decode().map_err(|_| format!("{path}: must be an object"))?;
    let mut fields = fields.unwrap_or_default();
    fields.extend(handed);
    Ok(RawJson::from_value(&fields))
}

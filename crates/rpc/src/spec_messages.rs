//! Encodes user-written specs, the inverse of [`read`](crate::read). Output-only fields stay empty.

use millstream_model::raw::RawJson;
use millstream_workflow::graph::{
    FanOut, GraphEdge, GraphOptions, GraphSpec, NodeAgent, NodeEdit, NodeOnFailure, NodeOptions, NodeRetry,
    NodeSpec, NodeTask, SubExecution,
};

use crate::length::length_out;
use crate::proto;
use crate::proto::node_edit::Kind;
use crate::status::status_out;

pub fn encode_node_spec(spec: &NodeSpec) -> proto::Node {
    proto::Node {
        id: spec.id.as_str().to_owned(),
        parents: spec.parents.iter().map(encode_parent).collect(),
        agent: encode_agent(&spec.agent),
        assigned_task: encode_task(&spec.task),
        is_final: spec.is_final,
        options: encode_node_options(&spec.options),
        on_failure: match spec.on_failure {
            NodeOnFailure::Skip => proto::OnFailure::Unspecified.into(),
            NodeOnFailure::Continue => proto::OnFailure::Continue.into(),
        },
        fan_out: spec.fan_out.as_ref().map(|FanOut { over }| proto::FanOut { over: over.clone() }),
        graph: spec.graph.as_deref().map(encode_graph_spec),
        execution: spec.execution.as_ref().map(encode_execution),
        ..proto::Node::default()
    }
}

pub fn encode_graph_spec(spec: &GraphSpec) -> proto::Graph {
    proto::Graph {
        name: spec.name.clone(),
        description: spec.description.clone(),
        input_json: json_or_empty(&spec.input),
        options: encode_workflow_options(&spec.options),
        nodes: spec.nodes.iter().map(encode_node_spec).collect(),
    }
}

pub fn encode_edit(edit: &NodeEdit) -> proto::NodeEdit {
    let (kind, node, node_id) = match edit {
        NodeEdit::Insert(spec) => (Kind::Insert, Some(encode_node_spec(spec)), String::new()),
        NodeEdit::Update(spec) => (Kind::Update, Some(encode_node_spec(spec)), String::new()),
        NodeEdit::Delete(id) => (Kind::Delete, None, id.as_str().to_owned()),
    };
    proto::NodeEdit { kind: kind.into(), node, node_id }
}

/// `None` if all options have their defaults.
pub fn encode_workflow_options(options: &GraphOptions) -> Option<proto::WorkflowOptions> {
    let GraphOptions { timeout, max_parallel, node } = options;
    let given = proto::WorkflowOptions {
        timeout: timeout.map(length_out),
        max_parallel: *max_parallel,
        node: encode_node_options(node),
    };
    (given != proto::WorkflowOptions::default()).then_some(given)
}

fn encode_node_options(options: &NodeOptions) -> Option<proto::ExecutionOptions> {
    let NodeOptions { timeout, retry } = options;
    let given = proto::ExecutionOptions {
        timeout: timeout.map(length_out),
        retry: retry.as_ref().map(self::encode_retry),
    };
    (given != proto::ExecutionOptions::default()).then_some(given)
}

fn encode_retry(retry: &NodeRetry) -> proto::RetryOptions {
    let NodeRetry { attempts, backoff, max, on } = retry;
    let on = if on.is_empty() {
        // An empty list would mean the default.
        vec![proto::NodeStatus::Unspecified.into()]
    } else {
        on.iter().map(|status| status_out(*status).into()).collect()
    };
    proto::RetryOptions {
        attempts: Some(*attempts),
        backoff: Some(length_out(*backoff)),
        max_backoff: Some(length_out(*max)),
        on,
    }
}

fn encode_parent(edge: &GraphEdge) -> proto::Parent {
    proto::Parent { node: edge.from.as_str().to_owned(), condition: edge.condition.clone() }
}

fn encode_agent(agent: &NodeAgent) -> Option<proto::Agent> {
    let given = proto::Agent {
        r#type: agent.kind.clone(),
        model: agent.model.clone(),
        role: agent.role.clone(),
        labels: agent.labels.iter().map(|label| label.as_str().to_owned()).collect(),
    };
    (given != proto::Agent::default()).then_some(given)
}

fn encode_task(task: &NodeTask) -> Option<proto::Task> {
    let dependencies = task.dependencies.iter();
    let given = proto::Task {
        goal: task.goal.clone(),
        dependencies: dependencies.map(|(name, node)| (name.clone(), node.as_str().to_owned())).collect(),
        subtasks: task.subtasks.clone(),
        ..proto::Task::default()
    };
    (given != proto::Task::default()).then_some(given)
}

fn encode_execution(execution: &SubExecution) -> proto::SubExecution {
    proto::SubExecution {
        definition: execution.definition.as_str().to_owned(),
        version: execution.version,
        input_json: json_or_empty(&execution.input),
    }
}

/// For fields whose empty string means null.
pub(crate) fn json_or_empty(json: &RawJson) -> String {
    if json.as_str() == "null" { String::new() } else { json.as_str().to_owned() }
}

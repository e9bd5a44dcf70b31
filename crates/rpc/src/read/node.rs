//! Reads a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_model::id::Name;
use millstream_model::problem::ValidationProblems;
use millstream_workflow::graph::{
    FanOut, GraphEdge, NodeAgent, NodeOnFailure, NodeSpec, NodeTask, SubExecution,
};

use super::graph::graph_at;
use super::options::read_node_options;
use super::text::{JsonOrigin, MessageReader};
use crate::path::FieldPath;
use crate::proto;

/// Reads a node to create. Output-only fields are ignored.
pub fn read_node(given: proto::Node) -> Result<NodeSpec, ValidationProblems> {
    let mut reading = MessageReader::new(JsonOrigin::Checked);
    let spec = node_at(given, &FieldPath::ROOT, &mut reading);
    reading.faults.finish_with(spec)
}

/// `None` means that there is a problem. A node that is returned may have problems as well.
pub(crate) fn node_at(
    given: proto::Node,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Option<NodeSpec> {
    let id = reading.read_name(&given.id, &at.field("id"));
    let parents = read_parents(given.parents, &at.field("parents"), reading);
    let agent = read_agent(given.agent, &at.field("agent"), reading);
    let task = read_task(given.assigned_task, &at.field("assigned_task"), reading);
    let options = read_node_options(given.options, &at.field("options"), reading);
    let on_failure = read_on_failure(given.on_failure, &at.field("on_failure"), reading);
    let graph = given.graph.map(|graph| graph_at(graph, &at.field("graph"), reading)).map(Arc::new);
    let execution = given.execution.and_then(|it| read_execution(it, &at.field("execution"), reading));
    Some(NodeSpec {
        id: id?,
        parents,
        agent,
        task,
        options,
        on_failure,
        is_final: given.is_final,
        fan_out: given.fan_out.map(|proto::FanOut { over }| FanOut { over }),
        graph,
        execution,
    })
}

fn read_parents(
    given: Vec<proto::Parent>,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Vec<GraphEdge> {
    let edge = |(index, parent): (usize, proto::Parent)| {
        let proto::Parent { node, condition } = parent;
        Some(GraphEdge { from: reading.read_name(&node, &at.at(index).field("node"))?, condition })
    };
    given.into_iter().enumerate().filter_map(edge).collect()
}

fn read_agent(given: Option<proto::Agent>, at: &FieldPath<'_>, reading: &mut MessageReader) -> NodeAgent {
    let Some(proto::Agent { r#type, model, role, labels }) = given else { return NodeAgent::default() };
    NodeAgent { kind: r#type, model, role, labels: reading.read_names(&labels, &at.field("labels")) }
}

fn read_task(given: Option<proto::Task>, at: &FieldPath<'_>, reading: &mut MessageReader) -> NodeTask {
    let Some(given) = given else { return NodeTask::default() };
    let mut dependencies = BTreeMap::new();
    for (name, node) in given.dependencies {
        match Name::parse(&node) {
            Ok(node) => {
                dependencies.insert(name, node);
            }
            Err(error) => reading.add_fault(&at.field("dependencies"), format!("{name:?} {error}")),
        }
    }
    NodeTask { goal: given.goal, dependencies, subtasks: given.subtasks }
}

fn read_on_failure(number: i32, at: &FieldPath<'_>, reading: &mut MessageReader) -> NodeOnFailure {
    match proto::OnFailure::try_from(number) {
        Ok(proto::OnFailure::Unspecified | proto::OnFailure::Skip) => NodeOnFailure::Skip,
        Ok(proto::OnFailure::Continue) => NodeOnFailure::Continue,
        Err(_) => {
            reading.add_fault(at, format!("{number} is not a way to handle a failure"));
            NodeOnFailure::Skip
        }
    }
}

fn read_execution(
    given: proto::SubExecution,
    at: &FieldPath<'_>,
    reading: &mut MessageReader,
) -> Option<SubExecution> {
    let proto::SubExecution { definition, version, input_json } = given;
    let input = reading.read_json_or_null(&input_json, &at.field("input_json"));
    let definition = reading.read_name(&definition, &at.field("definition"))?;
    Some(SubExecution { definition, version, input })
}

//! Reads a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_core::graph::{Agent, Edge, FanOut, NodeSpec, OnFailure, SubExecution, Task};
use millstream_core::id::Name;
use millstream_core::problem::Problems;

use super::graph::graph_at;
use super::options::node_options;
use super::text::{Json, Reading};
use crate::path::Path;
use crate::proto;

/// Reads a node to create. Output-only fields are ignored.
pub fn node(given: proto::Node) -> Result<NodeSpec, Problems> {
    let mut reading = Reading::new(Json::Checked);
    let spec = node_at(given, &Path::ROOT, &mut reading);
    reading.faults.or(spec)
}

/// `None` means that there is a problem. A node that is returned may have problems as well.
pub(crate) fn node_at(given: proto::Node, at: &Path<'_>, reading: &mut Reading) -> Option<NodeSpec> {
    let id = reading.name(&given.id, &at.field("id"));
    let parents = parents(given.parents, &at.field("parents"), reading);
    let agent = agent(given.agent, &at.field("agent"), reading);
    let task = task(given.assigned_task, &at.field("assigned_task"), reading);
    let options = node_options(given.options, &at.field("options"), reading);
    let on_failure = on_failure(given.on_failure, &at.field("on_failure"), reading);
    let graph = given.graph.map(|graph| graph_at(graph, &at.field("graph"), reading)).map(Arc::new);
    let execution = given.execution.and_then(|it| execution(it, &at.field("execution"), reading));
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

fn parents(given: Vec<proto::Parent>, at: &Path<'_>, reading: &mut Reading) -> Vec<Edge> {
    let edge = |(index, parent): (usize, proto::Parent)| {
        let proto::Parent { node, condition } = parent;
        Some(Edge { from: reading.name(&node, &at.at(index).field("node"))?, condition })
    };
    given.into_iter().enumerate().filter_map(edge).collect()
}

fn agent(given: Option<proto::Agent>, at: &Path<'_>, reading: &mut Reading) -> Agent {
    let Some(proto::Agent { r#type, model, role, labels }) = given else { return Agent::default() };
    Agent { kind: r#type, model, role, labels: reading.names(&labels, &at.field("labels")) }
}

fn task(given: Option<proto::Task>, at: &Path<'_>, reading: &mut Reading) -> Task {
    let Some(given) = given else { return Task::default() };
    let mut dependencies = BTreeMap::new();
    for (name, node) in given.dependencies {
        match Name::parse(&node) {
            Ok(node) => {
                dependencies.insert(name, node);
            }
            Err(error) => reading.fault(&at.field("dependencies"), format!("{name:?} {error}")),
        }
    }
    Task { goal: given.goal, dependencies, subtasks: given.subtasks }
}

fn on_failure(number: i32, at: &Path<'_>, reading: &mut Reading) -> OnFailure {
    match proto::OnFailure::try_from(number) {
        Ok(proto::OnFailure::Unspecified | proto::OnFailure::Skip) => OnFailure::Skip,
        Ok(proto::OnFailure::Continue) => OnFailure::Continue,
        Err(_) => {
            reading.fault(at, format!("{number} is not a way to handle a failure"));
            OnFailure::Skip
        }
    }
}

fn execution(given: proto::SubExecution, at: &Path<'_>, reading: &mut Reading) -> Option<SubExecution> {
    let proto::SubExecution { definition, version, input_json } = given;
    let input = reading.json_or_null(&input_json, &at.field("input_json"));
    let definition = reading.name(&definition, &at.field("definition"))?;
    Some(SubExecution { definition, version, input })
}

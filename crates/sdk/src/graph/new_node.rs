//! Builder of a node.

use std::sync::Arc;
use std::time::Duration;

use millstream_workflow::graph::{
    FanOut, GraphEdge, NodeAgent, NodeId, NodeOnFailure, NodeOptions, NodeRetry, NodeSpec, NodeTask,
    SubExecution,
};
use serde::Serialize;

use super::new_graph::{NewGraph, raw_json};

/// A node of a graph to create, or of an edit. Errors are reported when it is built or sent.
#[derive(Debug, Clone)]
pub struct NewNode(Result<NodeSpec, String>);

impl NewNode {
    /// Without parents: it runs at once, on any executor.
    pub fn of(id: impl AsRef<str>) -> Self {
        Self(parse_node_id(id.as_ref()).map(|id| NodeSpec {
            id,
            parents: Vec::new(),
            agent: NodeAgent::default(),
            task: NodeTask::default(),
            options: NodeOptions::default(),
            on_failure: NodeOnFailure::default(),
            is_final: false,
            fan_out: None,
            graph: None,
            execution: None,
        }))
    }

    /// Adds a parent.
    #[must_use]
    pub fn after(self, parent: impl AsRef<str>) -> Self {
        self.try_with(|node| {
            node.parents.push(GraphEdge { from: parse_node_id(parent.as_ref())?, condition: None });
            Ok(())
        })
    }

    /// Adds a parent with a condition over `input` and `results`.
    #[must_use]
    pub fn after_if(self, parent: impl AsRef<str>, condition: impl Into<String>) -> Self {
        self.try_with(|node| {
            node.parents
                .push(GraphEdge { from: parse_node_id(parent.as_ref())?, condition: Some(condition.into()) });
            Ok(())
        })
    }

    /// The goal of its task.
    #[must_use]
    pub fn goal(self, goal: impl Into<String>) -> Self {
        self.change_spec(|node| node.task.goal = goal.into())
    }

    /// Passes the result of a parent to the task under this name.
    #[must_use]
    pub fn dependency(self, as_name: impl Into<String>, parent: impl AsRef<str>) -> Self {
        self.try_with(|node| {
            node.task.dependencies.insert(as_name.into(), parse_node_id(parent.as_ref())?);
            Ok(())
        })
    }

    /// Adds an entry to the node's checklist.
    #[must_use]
    pub fn subtask(self, text: impl Into<String>) -> Self {
        self.change_spec(|node| node.task.subtasks.push(text.into()))
    }

    /// Only executors of this role.
    #[must_use]
    pub fn role(self, role: impl Into<String>) -> Self {
        self.change_spec(|node| node.agent.role = role.into())
    }

    /// Only executors with this label.
    #[must_use]
    pub fn label(self, label: impl AsRef<str>) -> Self {
        self.try_with(|node| {
            node.agent.labels.insert(parse_node_id(label.as_ref())?);
            Ok(())
        })
    }

    /// Passed to the executor: the engine does not interpret it.
    #[must_use]
    pub fn agent(self, kind: impl Into<String>, model: impl Into<String>) -> Self {
        self.change_spec(|node| {
            node.agent.kind = kind.into();
            node.agent.model = model.into();
        })
    }

    /// Time limit of one attempt; five minutes by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change_spec(|node| node.options.timeout = Some(timeout))
    }

    #[must_use]
    pub fn retry(self, retry: NodeRetry) -> Self {
        self.change_spec(|node| node.options.retry = Some(retry))
    }

    /// Runs also when an earlier node has failed.
    #[must_use]
    pub fn continue_on_failure(self) -> Self {
        self.change_spec(|node| node.on_failure = NodeOnFailure::Continue)
    }

    /// The graph succeeds if this node succeeds.
    #[must_use]
    pub fn is_final(self) -> Self {
        self.change_spec(|node| node.is_final = true)
    }

    /// Fan-out: performed once for each item of the list that this expression returns.
    #[must_use]
    pub fn fan_out(self, over: impl Into<String>) -> Self {
        self.change_spec(|node| node.fan_out = Some(FanOut { over: over.into() }))
    }

    /// Runs a child graph instead of an executor.
    #[must_use]
    pub fn graph(self, graph: impl Into<NewGraph>) -> Self {
        self.try_with(|node| {
            node.graph = Some(Arc::new(graph.into().into_spec()?));
            Ok(())
        })
    }

    /// Starts an execution of the newest version of a definition instead of an executor.
    #[must_use]
    pub fn execution(self, definition: impl AsRef<str>, input: impl Serialize) -> Self {
        self.try_with(|node| {
            let definition = parse_node_id(definition.as_ref())?;
            node.execution = Some(SubExecution { definition, version: None, input: raw_json(&input)? });
            Ok(())
        })
    }

    pub(crate) fn build_spec(self) -> Result<NodeSpec, String> {
        self.0
    }

    fn change_spec(self, change: impl FnOnce(&mut NodeSpec)) -> Self {
        self.try_with(|node| {
            change(node);
            Ok(())
        })
    }

    fn try_with(self, change: impl FnOnce(&mut NodeSpec) -> Result<(), String>) -> Self {
        Self(self.0.and_then(|mut node| match change(&mut node) {
            Ok(()) => Ok(node),
            Err(reason) => Err(format!("node {}: {reason}", node.id)),
        }))
    }
}

impl From<NodeSpec> for NewNode {
    fn from(node: NodeSpec) -> Self {
        Self(Ok(node))
    }
}

pub(crate) fn parse_node_id(text: &str) -> Result<NodeId, String> {
    NodeId::parse(text).map_err(|error| format!("{text:?} {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(node: NewNode) -> String {
        serde_json::to_string(&node.build_spec().unwrap()).unwrap()
    }

    #[test]
    fn new_node_writes_only_given_fields() {
        assert_eq!(written(NewNode::of("a")), r#"{"id":"a"}"#);
        let node = NewNode::of("sum")
            .after("a")
            .after_if("b", "results.b.n > 1")
            .agent("llm", "small")
            .role("writer")
            .label("gpu")
            .goal("add up")
            .dependency("first", "a")
            .subtask("check")
            .timeout(Duration::from_secs(30))
            .continue_on_failure();
        assert_eq!(
            written(node),
            r#"{"id":"sum","parents":["a",{"node":"b","if":"results.b.n > 1"}],"agent":{"type":"llm","model":"small","role":"writer","labels":["gpu"]},"task":{"goal":"add up","dependencies":{"first":"a"},"subtasks":["check"]},"options":{"timeout":"30s"},"on_failure":"continue"}"#
        );
    }

    #[test]
    fn new_node_starts_children_or_fans_out() {
        let inner = NewGraph::named("inner").node(NewNode::of("x"));
        assert_eq!(
            written(NewNode::of("a").graph(inner)),
            r#"{"id":"a","graph":{"name":"inner","nodes":[{"id":"x"}]}}"#
        );
        let order =
            NewNode::of("a").fan_out("input.orders").execution("order", serde_json::json!({ "n": 1 }));
        assert_eq!(
            written(order),
            r#"{"id":"a","fan_out":{"over":"input.orders"},"execution":{"definition":"order","input":{"n":1}}}"#
        );
    }

    #[test]
    fn invalid_node_name_is_reported() {
        let error = NewNode::of("a").after("B").role("r").build_spec().unwrap_err();
        assert!(error.starts_with("node a: \"B\" may contain only"), "{error}");
    }
}

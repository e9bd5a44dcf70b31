//! Builder of a graph.

use std::time::Duration;

use millstream_model::raw::RawJson;
use millstream_workflow::graph::{GraphOptions, GraphSpec, NodeOptions};
use serde::Serialize;

use super::new_node::NewNode;
use crate::client_error::ClientError;

/// A graph to create. Errors are reported when it is built or sent.
#[derive(Debug, Clone)]
pub struct NewGraph(Result<GraphSpec, String>);

impl NewGraph {
    /// Without nodes, which is not a valid graph yet.
    pub fn named(name: impl Into<String>) -> Self {
        Self(Ok(GraphSpec {
            name: name.into(),
            description: String::new(),
            input: RawJson::null(),
            options: GraphOptions::default(),
            nodes: Vec::new(),
        }))
    }

    #[must_use]
    pub fn description(self, text: impl Into<String>) -> Self {
        self.change_spec(|graph| graph.description = text.into())
    }

    /// The object that conditions see as `input` and executors get with every node.
    #[must_use]
    pub fn input(self, input: impl Serialize) -> Self {
        match raw_json(&input) {
            Ok(input) => self.change_spec(|graph| graph.input = input),
            Err(reason) => Self(self.0.and(Err(format!("the input: {reason}")))),
        }
    }

    /// The graph fails if it has not ended by then.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change_spec(|graph| graph.options.timeout = Some(timeout))
    }

    /// Maximum number of concurrent nodes; 1,000 by default.
    #[must_use]
    pub fn max_parallel(self, nodes: u32) -> Self {
        self.change_spec(|graph| graph.options.max_parallel = Some(nodes))
    }

    /// Defaults for nodes without options of their own.
    #[must_use]
    pub fn node_options(self, options: NodeOptions) -> Self {
        self.change_spec(|graph| graph.options.node = options)
    }

    #[must_use]
    pub fn node(self, node: impl Into<NewNode>) -> Self {
        match node.into().build_spec() {
            Ok(node) => self.change_spec(|graph| graph.nodes.push(node)),
            Err(error) => Self(self.0.and(Err(error))),
        }
    }

    /// The graph, or the first error. It is not [validated](super::validate_graph): the server does that.
    pub fn build(self) -> Result<GraphSpec, ClientError> {
        self.0.map_err(ClientError::Unsendable)
    }

    pub(crate) fn into_spec(self) -> Result<GraphSpec, String> {
        self.0
    }

    fn change_spec(mut self, change: impl FnOnce(&mut GraphSpec)) -> Self {
        if let Ok(graph) = &mut self.0 {
            change(graph);
        }
        self
    }
}

impl From<GraphSpec> for NewGraph {
    fn from(graph: GraphSpec) -> Self {
        Self(Ok(graph))
    }
}

/// A value of the user as JSON.
pub(super) fn raw_json(value: &impl Serialize) -> Result<RawJson, String> {
    let text = serde_json::to_string(value).map_err(|error| error.to_string())?;
    RawJson::parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_graph_matches_api() {
        let graph = NewGraph::named("g")
            .description("two steps")
            .input(serde_json::json!({ "n": 1 }))
            .timeout(Duration::from_secs(90))
            .max_parallel(2)
            .node(NewNode::of("a"))
            .node(NewNode::of("b").after("a").is_final())
            .build()
            .unwrap();
        assert_eq!(
            serde_json::to_string(&graph).unwrap(),
            r#"{"name":"g","description":"two steps","input":{"n":1},"options":{"timeout":"90s","max_parallel":2},"nodes":[{"id":"a"},{"id":"b","parents":["a"],"is_final":true}]}"#
        );
    }

    #[test]
    fn new_graph_reports_first_error() {
        let graph = NewGraph::named("g").node(NewNode::of("a")).node(NewNode::of("B")).node(NewNode::of("C"));
        let error = graph.build().unwrap_err().to_string();
        assert!(error.contains("\"B\""), "{error}");
        let bad = std::collections::HashMap::from([((1, 2), 3)]);
        let error = NewGraph::named("g").input(bad).build().unwrap_err().to_string();
        assert!(error.contains("the input"), "{error}");
    }
}

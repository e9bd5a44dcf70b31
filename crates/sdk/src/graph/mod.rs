//! Graphs as submitted: the types of the language, and two builders.
//!
//! [`GraphSpec`] is the form that the server accepts, and [`read_graph`] parses it from YAML or JSON. In Rust a
//! graph is easier to build:
//!
//! ```
//! # use serde_json::json;
//! use millstream_sdk::graph::{NewGraph, NewNode};
//!
//! let graph = NewGraph::named("release")
//!     .input(json!({ "tag": "v2" }))
//!     .node(NewNode::of("build").goal("build the tag").role("builder"))
//!     .node(NewNode::of("test").after("build").goal("run the tests"))
//!     .node(NewNode::of("publish").after_if("test", "results.test.failures == 0").goal("publish it").is_final())
//!     .build()
//!     .unwrap();
//! millstream_sdk::graph::validate_graph(&graph).unwrap();
//! ```

mod new_graph;
mod new_node;

pub use millstream_model::document::SourceFormat;
pub use millstream_workflow::graph::{
    FanOut, GraphEdge, GraphOptions, GraphSpec, InvalidGraph, NodeAgent, NodeEdit, NodeId, NodeOnFailure,
    NodeOptions, NodeRetry, NodeSpec, NodeStatus, NodeTask, SubExecution, read_graph, validate_graph,
};
pub use new_graph::NewGraph;
pub use new_node::NewNode;
pub(crate) use new_node::parse_node_id;

//! Paths of graphs and nodes in the HTTP API.

use crate::client::segment;

pub(super) fn graph(id: &str, rest: &str) -> String {
    format!("/v1/graphs/{}{rest}", segment(id))
}

pub(super) fn node(graph_id: &str, id: &str, rest: &str) -> String {
    graph(graph_id, &format!("/nodes/{}{rest}", segment(id)))
}

//! Paths of graphs and nodes in the HTTP API.

use crate::client::path_segment;

pub(super) fn graph_path(id: &str, rest: &str) -> String {
    format!("/v1/graphs/{}{rest}", path_segment(id))
}

pub(super) fn node_path(graph_id: &str, id: &str, rest: &str) -> String {
    graph_path(graph_id, &format!("/nodes/{}{rest}", path_segment(id)))
}

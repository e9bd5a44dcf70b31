//! A graph with its nodes, as commands show it.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::{GraphNode, GraphSummary, NodeList};
use serde::Serialize;

use crate::client::{first_items, page_size};

/// Maximum number of nodes of a graph.
const NODES_LIMIT: usize = 20_000;

/// A graph with its nodes, if they were asked for.
#[derive(Debug, Serialize)]
pub(super) struct ShownGraph {
    #[serde(flatten)]
    pub(super) graph: GraphSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_list: Option<Vec<GraphNode>>,
}

pub(super) async fn read_shown_graph(
    id: &str,
    nodes: Option<NodeList>,
    client: &Client,
) -> Result<ShownGraph> {
    let graph = client.get_graph(id).await?;
    let node_list = match nodes {
        Some(nodes) => {
            Some(first_items(nodes.page_size(page_size(NODES_LIMIT)).stream(), NODES_LIMIT).await?)
        }
        None => None,
    };
    Ok(ShownGraph { graph, node_list })
}

//! The nodes of a graph: the list, one node with its result, and the log that executors wrote.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::graph_nodes::{GraphNode, GraphNodeDetail, NodeLogEntry};
use millstream_api::page::Page;
use millstream_model::id::Name;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_store::graph_store::{LogView, NodeFilter};
use millstream_workflow::graph::{NodeEdit, NodeId, NodeStatus};

use super::views::{graph_node, graph_node_detail, node_log_entry};
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::graphs::{find, nodes};
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::views::page_of;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/graphs/{graph_id}/nodes", "list_nodes", list_nodes)
            .summary("Nodes in the order of their ids, without their results")
            .needs(Permission::ReadData)
            .query(&[("status", "NodeStatus"), ("limit", "LongLimit"), ("cursor", "Cursor")])
            .returns::<Page<GraphNode>>(200, "One page")
            .problems(&[404]),
        Route::get("/v1/graphs/{graph_id}/nodes/{node}", "get_node", get_node)
            .summary("One node with its result")
            .needs(Permission::ReadData)
            .returns::<GraphNodeDetail>(200, "The node")
            .problems(&[404]),
        Route::get("/v1/graphs/{graph_id}/nodes/{node}/logs", "get_node_logs", get_node_logs)
            .summary("The log that executors wrote for a node, all attempts, in order")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .returns::<Page<NodeLogEntry>>(200, "One page")
            .problems(&[404]),
    ]
}

async fn list_nodes(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Json<Page<GraphNode<RawJson>>>, RequestRefusal> {
    let status = params.parse_word("status", NodeStatus::ALL);
    let limit = params.parse_limit(100, 1_000);
    let after = params.parse_cursor(CursorList::Nodes, |text| Name::parse(text).ok());
    params.finish_params()?;
    let graph = find::parse_graph_key(&caller, &id)?;
    nodes::check_graph_exists(&door.graphs, &graph).await?;
    let filter = NodeFilter { statuses: status.into_iter().collect(), ids: Vec::new() };
    let found =
        nodes::list_nodes(&door.graphs, &graph, &filter, after, limit, |view| Ok(graph_node(view))).await?;
    let cursor = |(node, _): &(NodeId, GraphNode<RawJson>)| cursor::encode(CursorList::Nodes, node);
    Ok(Json(page_of(found, limit, cursor, |(_, node)| node)))
}

async fn get_node(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path((id, node)): Path<(String, String)>,
    params: QueryParams,
) -> Result<Json<GraphNodeDetail<RawJson, NodeEdit>>, RequestRefusal> {
    params.finish_params()?;
    let graph = find::parse_graph_key(&caller, &id)?;
    let view = nodes::find_node(&door.graphs, &graph, &nodes::parse_node_id(&node)?).await?;
    let beyond = nodes::node_details(&door.graphs, &graph, &view).await?;
    Ok(Json(graph_node_detail(view, beyond)))
}

async fn get_node_logs(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path((id, node)): Path<(String, String)>,
    mut params: QueryParams,
) -> Result<Json<Page<NodeLogEntry>>, RequestRefusal> {
    let limit = params.parse_limit(100, 1_000);
    let after =
        params.parse_cursor(CursorList::NodeLogs, |text| text.parse().ok().filter(|after: &i64| *after >= 0));
    params.finish_params()?;
    let graph = find::parse_graph_key(&caller, &id)?;
    let node = nodes::parse_node_id(&node)?;
    let found = nodes::list_logs(&door.graphs, &graph, &node, after.unwrap_or(0), limit + 1).await?;
    let cursor = |last: &LogView| cursor::encode(CursorList::NodeLogs, last.position);
    Ok(Json(page_of(found, limit, cursor, node_log_entry)))
}

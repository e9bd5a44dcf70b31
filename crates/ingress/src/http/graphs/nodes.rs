//! The nodes of a graph: the list, one node with its result, and the log that executors wrote.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::graph::{NodeId, NodeStatus};
use millstream_core::id::Name;
use millstream_core::permission::Permission;
use millstream_store::graph_store::{LogView, NodeFilter};

use super::views::{LogOut, NodeOut};
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::door::Door;
use crate::graphs::{find, nodes};
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::views::Page;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/graphs/{graph_id}/nodes", "list_nodes", list)
            .summary("Nodes in the order of their ids, without their results")
            .needs(Permission::ReadData)
            .query(&[("status", "NodeStatus"), ("limit", "LongLimit"), ("cursor", "Cursor")])
            .answer(200, "NodePage", "One page")
            .problems(&[404]),
        Route::get("/v1/graphs/{graph_id}/nodes/{node}", "get_node", read)
            .summary("One node with its result")
            .needs(Permission::ReadData)
            .answer(200, "NodeDetail", "The node")
            .problems(&[404]),
        Route::get("/v1/graphs/{graph_id}/nodes/{node}/logs", "get_node_logs", logs)
            .summary("The log that executors wrote for a node, all attempts, in order")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .answer(200, "NodeLogPage", "One page")
            .problems(&[404]),
    ]
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Page<NodeOut>>, Problem> {
    let status = params.word("status", NodeStatus::ALL);
    let limit = params.limit(100, 1_000);
    let after = params.cursor(List::Nodes, |text| Name::parse(text).ok());
    params.finish()?;
    let graph = find::key_of(&caller, &id)?;
    nodes::of_existing(&door, &graph).await?;
    let filter = NodeFilter { statuses: status.into_iter().collect(), ids: Vec::new() };
    let found = nodes::list(&door, &graph, &filter, after, limit, |view| Ok(NodeOut::brief(view))).await?;
    let cursor = |(node, _): &(NodeId, NodeOut)| cursor::encode(List::Nodes, node);
    Ok(Json(Page::of(found, limit, cursor, |(_, node)| node)))
}

async fn read(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path((id, node)): Path<(String, String)>,
    params: Params,
) -> Result<Json<NodeOut>, Problem> {
    params.finish()?;
    let graph = find::key_of(&caller, &id)?;
    let view = nodes::one(&door, &graph, &nodes::id_of(&node)?).await?;
    let beyond = nodes::beyond(&door, &graph, &view).await?;
    Ok(Json(NodeOut::whole(view, beyond)))
}

async fn logs(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path((id, node)): Path<(String, String)>,
    mut params: Params,
) -> Result<Json<Page<LogOut>>, Problem> {
    let limit = params.limit(100, 1_000);
    let after = params.cursor(List::NodeLogs, |text| text.parse().ok().filter(|after: &i64| *after >= 0));
    params.finish()?;
    let graph = find::key_of(&caller, &id)?;
    let node = nodes::id_of(&node)?;
    let found = nodes::logs(&door, &graph, &node, after.unwrap_or(0), limit + 1).await?;
    let cursor = |last: &LogView| cursor::encode(List::NodeLogs, last.position);
    Ok(Json(Page::of(found, limit, cursor, LogOut::from)))
}

//! Reads graphs: one, or a list.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_model::id::AcceptNo;
use millstream_model::permission::Permission;

use super::views::{GraphOut, GraphStatus};
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::graphs::find;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::views::PageOut;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/graphs", "list_graphs", list_graphs)
            .summary("Graphs, newest first")
            .needs(Permission::ReadData)
            .query(&[("status", "GraphStatus"), ("limit", "Limit"), ("cursor", "Cursor")])
            .answer(200, "GraphPage", "One page"),
        Route::get("/v1/graphs/{graph_id}", "get_graph", get_graph)
            .summary("One graph, with the number of its nodes per status")
            .needs(Permission::ReadData)
            .answer(200, "Graph", "The graph")
            .problems(&[404]),
    ]
}

async fn get_graph(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<GraphOut>, RequestRefusal> {
    params.finish_params()?;
    let found = find::find_graph(&door.graphs, &find::parse_graph_key(&caller, &id)?).await?;
    GraphOut::try_from(found).map(Json).map_err(find::unreadable_graph)
}

async fn list_graphs(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<PageOut<GraphOut>>, RequestRefusal> {
    let status = params.parse_word("status", GraphStatus::ALL).map(GraphStatus::of_execution);
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Graphs, |text| text.parse().ok().map(AcceptNo));
    params.finish_params()?;
    let found = find::list_graphs(&door.graphs, &caller, status, after, limit, GraphOut::brief).await?;
    let cursor = |(position, _): &(AcceptNo, GraphOut)| cursor::encode(CursorList::Graphs, position.0);
    Ok(Json(PageOut::of(found, limit, cursor, |(_, graph)| graph)))
}

//! Reads graphs: one, or a list.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::id::AcceptNo;
use millstream_core::permission::Permission;

use super::views::{GraphOut, GraphStatus};
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::door::Door;
use crate::graphs::find;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::views::Page;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/graphs", "list_graphs", list)
            .summary("Graphs, newest first")
            .needs(Permission::ReadData)
            .query(&[("status", "GraphStatus"), ("limit", "Limit"), ("cursor", "Cursor")])
            .answer(200, "GraphPage", "One page"),
        Route::get("/v1/graphs/{graph_id}", "get_graph", read)
            .summary("One graph, with the number of its nodes per status")
            .needs(Permission::ReadData)
            .answer(200, "Graph", "The graph")
            .problems(&[404]),
    ]
}

async fn read(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<GraphOut>, Problem> {
    params.finish()?;
    let found = find::find(&door, &find::key_of(&caller, &id)?).await?;
    GraphOut::try_from(found).map(Json).map_err(find::unreadable)
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<GraphOut>>, Problem> {
    let status = params.word("status", GraphStatus::ALL).map(GraphStatus::of_execution);
    let limit = params.limit(50, 500);
    let after = params.cursor(List::Graphs, |text| text.parse().ok().map(AcceptNo));
    params.finish()?;
    let found = find::list(&door, &caller, status, after, limit, GraphOut::brief).await?;
    let cursor = |(position, _): &(AcceptNo, GraphOut)| cursor::encode(List::Graphs, position.0);
    Ok(Json(Page::of(found, limit, cursor, |(_, graph)| graph)))
}

//! Reads graphs: one, or a list.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::graphs::GraphSummary;
use millstream_api::page::Page;
use millstream_model::id::AcceptNo;
use millstream_model::permission::Permission;
use millstream_model::status::ExecutionStatus;

use super::views::{GraphSummaryView, graph_in_list, graph_status, graph_summary};
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::graphs::find;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::views::page_of;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/graphs", "list_graphs", list_graphs)
            .summary("Graphs, newest first")
            .needs(Permission::ReadData)
            .query(&[("status", "GraphStatus"), ("limit", "Limit"), ("cursor", "Cursor")])
            .returns::<Page<GraphSummary>>(200, "One page"),
        Route::get("/v1/graphs/{graph_id}", "get_graph", get_graph)
            .summary("One graph, with the number of its nodes per status")
            .needs(Permission::ReadData)
            .returns::<GraphSummary>(200, "The graph")
            .problems(&[404]),
    ]
}

async fn get_graph(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<GraphSummaryView>, RequestRefusal> {
    params.finish_params()?;
    let found = find::find_graph(&door.graphs, &find::parse_graph_key(&caller, &id)?).await?;
    graph_summary(found).map(Json).map_err(find::unreadable_graph)
}

async fn list_graphs(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<GraphSummaryView>>, RequestRefusal> {
    let status = parse_graph_status(&mut params);
    let limit = params.parse_limit(50, 500);
    let after = params.parse_cursor(CursorList::Graphs, |text| text.parse().ok().map(AcceptNo));
    params.finish_params()?;
    let found = find::list_graphs(&door.graphs, &caller, status, after, limit, graph_in_list).await?;
    let cursor =
        |(position, _): &(AcceptNo, GraphSummaryView)| cursor::encode(CursorList::Graphs, position.0);
    Ok(Json(page_of(found, limit, cursor, |(_, graph)| graph)))
}

/// The status of the execution behind the graph.
fn parse_graph_status(params: &mut QueryParams) -> Option<ExecutionStatus> {
    const STATUSES: [ExecutionStatus; 5] = [
        ExecutionStatus::Active,
        ExecutionStatus::Completed,
        ExecutionStatus::Failed,
        ExecutionStatus::Cancelled,
        ExecutionStatus::Paused,
    ];
    let word = params.parse_word("status", &STATUSES.map(graph_status))?;
    STATUSES.into_iter().find(|status| graph_status(*status) == word)
}

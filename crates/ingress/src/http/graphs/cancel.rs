//! `POST /v1/graphs/{graph_id}/cancel`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use millstream_api::graphs::GraphSummary;
use millstream_api::reason::Reason;
use millstream_model::permission::Permission;

use super::views::graph_summary;
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::graphs::cancel::{self, GraphCancellation};
use crate::graphs::edit::{self, GraphCaller};
use crate::graphs::find;
use crate::http::interventions::read_reason;
use crate::http::prefer::PreferHeader;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::trace::TraceContext;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/graphs/{graph_id}/cancel", "cancel_graph", cancel_graph)
            .summary("Cancel a graph: running nodes are cancelled, waiting nodes do not start")
            .needs(Permission::Operate)
            .headers(&["Prefer", "traceparent", "x-request-id"])
            .accepts::<Reason>()
            .body_optional()
            .returns::<GraphSummary>(200, "The graph has ended, by this request or before")
            .returns::<GraphSummary>(202, "Durable; not decided before the wait timed out")
            .problems(&[404]),
    ]
}

async fn cancel_graph(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    slot: RequestSlot,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let graph = find::parse_graph_key(&caller, &id)?;
    let (parts, body) = request.into_parts();
    let prefer = PreferHeader::of(&parts.headers)?;
    let reason = read_reason(&door, &parts.headers, body).await?;
    let patience = prefer.granted_wait(Some(edit::WAIT), door.options.max_wait);
    let asker = GraphCaller { caller: &caller, trace: &trace, slot: &slot, patience };
    let (cancelled, found) = cancel::cancel_graph(&door.graphs, asker, graph, reason).await?;
    let status = match cancelled {
        GraphCancellation::Ended => StatusCode::OK,
        GraphCancellation::NotYet => StatusCode::ACCEPTED,
    };
    let graph = graph_summary(found).map_err(find::unreadable_graph)?;
    Ok((status, Json(graph)).into_response())
}

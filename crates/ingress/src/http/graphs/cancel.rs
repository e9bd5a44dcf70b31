//! `POST /v1/graphs/{graph_id}/cancel`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use millstream_core::permission::Permission;

use super::views::GraphOut;
use crate::auth::Caller;
use crate::door::Door;
use crate::gate::Slot;
use crate::graphs::cancel::{self, Cancelled};
use crate::graphs::edit::{self, Asker};
use crate::graphs::find;
use crate::http::interventions::reason;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::prefer::Prefer;
use crate::query::Params;
use crate::trace::Trace;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/graphs/{graph_id}/cancel", "cancel_graph", post)
            .summary("Cancel a graph: running nodes are cancelled, waiting nodes do not start")
            .needs(Permission::Operate)
            .headers(&["Prefer", "traceparent", "x-request-id"])
            .body("application/json", "Reason")
            .body_optional()
            .answer(200, "Graph", "The graph has ended, by this request or before")
            .answer(202, "Graph", "Durable; not decided before the wait timed out")
            .problems(&[404]),
    ]
}

async fn post(
    State(door): State<Arc<Door>>,
    caller: Caller,
    trace: Trace,
    slot: Slot,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let graph = find::key_of(&caller, &id)?;
    let (parts, body) = request.into_parts();
    let prefer = Prefer::of(&parts.headers)?;
    let reason = reason(&door, &parts.headers, body).await?;
    let patience = prefer.patience(Some(edit::WAIT), door.options.max_wait);
    let asker = Asker { caller: &caller, trace: &trace, slot: &slot, patience };
    let (cancelled, found) = cancel::cancel(&door, asker, graph, reason).await?;
    let status = match cancelled {
        Cancelled::Ended => StatusCode::OK,
        Cancelled::NotYet => StatusCode::ACCEPTED,
    };
    let graph = GraphOut::try_from(found).map_err(find::unreadable)?;
    Ok((status, Json(graph)).into_response())
}

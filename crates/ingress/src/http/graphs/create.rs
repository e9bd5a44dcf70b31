//! `POST /v1/graphs`: validates, stores and starts a graph given as JSON.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_core::graph::{GraphOptions, GraphSpec, NodeSpec};
use millstream_core::id::ExecutionId;
use millstream_core::permission::Permission;
use millstream_core::raw::RawJson;
use serde::Deserialize;

use super::json;
use super::views::GraphOut;
use crate::auth::Caller;
use crate::body::{Allowance, Body, Media};
use crate::door::Door;
use crate::gate::Slot;
use crate::graphs::create::{self, Made, Wish};
use crate::graphs::{find, heavy};
use crate::http::posting;
use crate::http::problem::Problem;
use crate::http::route::{Located, Route};
use crate::query::Params;
use crate::trace::Trace;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/graphs", "create_graph", post)
            .summary("Create a graph and start its first nodes")
            .needs(Permission::PostEvents)
            .headers(&["Idempotency-Key", "traceparent", "x-request-id"])
            .body("application/json", "NewGraph")
            .answer(201, "Graph", "Created")
            .answer(200, "Graph", "Existed already with the same content")
            .problems(&[404, 409])
            .located(Located::Always)
            .leads_to("get_graph", &["graph_id"])
            .leads_to("list_nodes", &["graph_id"])
            .leads_to("watch_graph", &["graph_id"])
            .leads_to("edit_graph", &["graph_id"])
            .leads_to("cancel_graph", &["graph_id"]),
    ]
}

/// [`GraphSpec`] with an id.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct NewGraph {
    #[serde(default)]
    graph_id: Option<ExecutionId>,
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default = "RawJson::null")]
    input: RawJson,
    #[serde(default)]
    options: GraphOptions,
    nodes: Vec<NodeSpec>,
}

async fn post(
    State(door): State<Arc<Door>>,
    caller: Caller,
    trace: Trace,
    slot: Slot,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    params.finish()?;
    let (parts, body) = request.into_parts();
    Media::of(&parts.headers, &[Media::Json])?;
    let idempotency_key = posting::idempotency_header(&parts.headers)?;
    let limits = &door.options.limits;
    let allowed = Allowance { bytes: limits.graph_bytes, time: limits.body_timeout };
    let body = Body::read(body, &parts.headers, allowed, &door.bodies.of_caller(&parts.extensions)).await?;
    let bytes = body.text()?.len();
    // The body's bytes stay charged until the answer: the decoded graph is as large.
    let (wish, _paid) =
        heavy(&door.machines.graph_work, bytes, move || (read(&body, idempotency_key), body)).await?;
    let (made, found) = create::create(&door, &caller, &trace, &slot, wish?).await?;
    let status = match made {
        Made::Created => StatusCode::CREATED,
        Made::Existed => StatusCode::OK,
    };
    let graph = GraphOut::try_from(found).map_err(find::unreadable)?;
    let location = HeaderValue::from_str(&format!("/v1/graphs/{}", graph.graph_id));
    let mut response = (status, Json(graph)).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn read(body: &Body, idempotency_key: Option<String>) -> Result<Wish, Problem> {
    let text = body.json()?;
    let NewGraph { graph_id, name, description, input, options, nodes } =
        json::decode(text, "").map_err(Problem::invalid)?;
    let spec = GraphSpec { name, description, input, options, nodes };
    let faults = json::too_deep(&spec);
    if !faults.is_empty() {
        return Err(Problem::invalid(faults));
    }
    Ok(Wish { id: graph_id, spec, idempotency_key, bytes: text.len() })
}

//! `POST /v1/graphs`: validates, stores and starts a graph given as JSON.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_api::graph_spec::NewGraphBody;
use millstream_api::graphs::GraphSummary;
use millstream_model::id::ExecutionId;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_workflow::graph::{GraphOptions, GraphSpec, NodeSpec};
use serde::Deserialize;

use super::json;
use super::views::graph_summary;
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::graphs::create::{self, GraphCreation, GraphToCreate};
use crate::graphs::{find, run_off_runtime};
use crate::http::body::{MediaType, RequestBody, read_body};
use crate::http::query::QueryParams;
use crate::http::route::{LocationHeader, Route};
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::submit::idempotency_key;
use crate::trace::TraceContext;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/graphs", "create_graph", create_graph)
            .summary("Create a graph and start its first nodes")
            .needs(Permission::PostEvents)
            .headers(&["Idempotency-Key", "traceparent", "x-request-id"])
            .accepts::<NewGraphBody>()
            .returns::<GraphSummary>(201, "Created")
            .returns::<GraphSummary>(200, "Existed already with the same content")
            .problems(&[404, 409])
            .located(LocationHeader::Always)
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
struct NewGraphRequest {
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

async fn create_graph(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    slot: RequestSlot,
    params: QueryParams,
    request: Request,
) -> Result<Response, RequestRefusal> {
    params.finish_params()?;
    let (parts, body) = request.into_parts();
    MediaType::of(&parts.headers, &[MediaType::Json])?;
    let idempotency_key = idempotency_key::idempotency_header(&parts.headers)?;
    let limits = &door.options.limits;
    let body = read_body(&door, &parts, body, limits.graph_bytes).await?;
    let bytes = body.text()?.len();
    // The body's bytes stay charged until the answer: the decoded graph is as large.
    let (wish, _paid) = run_off_runtime(&door.machines.graph_work, bytes, move || {
        (read_new_graph(&body, idempotency_key), body)
    })
    .await?;
    let (made, found) = create::create_graph(&door.graphs, &caller, &trace, &slot, wish?).await?;
    let status = match made {
        GraphCreation::Created => StatusCode::CREATED,
        GraphCreation::Existed => StatusCode::OK,
    };
    let graph = graph_summary(found).map_err(find::unreadable_graph)?;
    let location = HeaderValue::from_str(&format!("/v1/graphs/{}", graph.graph_id));
    let mut response = (status, Json(graph)).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn read_new_graph(
    body: &RequestBody,
    idempotency_key: Option<String>,
) -> Result<GraphToCreate, RequestRefusal> {
    let text = body.json()?;
    let NewGraphRequest { graph_id, name, description, input, options, nodes } =
        json::decode_json(text, "").map_err(RequestRefusal::invalid)?;
    let spec = GraphSpec { name, description, input, options, nodes };
    let faults = json::graph_depth_faults(&spec);
    if !faults.is_empty() {
        return Err(RequestRefusal::invalid(faults));
    }
    Ok(GraphToCreate { id: graph_id, spec, idempotency_key, bytes: text.len() })
}

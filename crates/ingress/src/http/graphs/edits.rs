//! `POST /v1/graphs/{graph_id}/edits`: changes the shape of a running graph.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_api::graph_spec::GraphEditRequest;
use millstream_api::graphs::{AppliedEdit, GraphEditAccepted};
use millstream_model::permission::Permission;
use millstream_workflow::graph::NodeEdit;

use super::json;
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::graphs::edit::{self, EditsToApply, GraphCaller, GraphEditOutcome};
use crate::graphs::find;
use crate::http::body::{MediaType, read_body};
use crate::http::fields::JsonFields;
use crate::http::prefer::PreferHeader;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::submit::idempotency_key;
use crate::trace::TraceContext;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/graphs/{graph_id}/edits", "edit_graph", edit_graph)
            .summary("Insert, update and delete nodes; all edits are applied, or none")
            .needs(Permission::PostEvents)
            .headers(&["Idempotency-Key", "Prefer", "traceparent", "x-request-id"])
            .accepts::<GraphEditRequest>()
            .returns::<AppliedEdit>(200, "Applied")
            .returns::<GraphEditAccepted>(202, "Durable; not decided before the wait timed out")
            .problems(&[404, 409]),
    ]
}

async fn edit_graph(
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
    MediaType::of(&parts.headers, &[MediaType::Json])?;
    let prefer = PreferHeader::of(&parts.headers)?;
    let idempotency_key = idempotency_key::idempotency_header(&parts.headers)?;
    let limits = &door.options.limits;
    let body = read_body(&door, &parts, body, limits.message_bytes).await?;
    let wish = read_edit_request(body.json()?, idempotency_key)?;
    let patience = prefer.granted_wait(Some(edit::WAIT), door.options.max_wait);
    let asker = GraphCaller { caller: &caller, trace: &trace, slot: &slot, patience };
    let graph_id = graph.execution.to_string();
    match edit::edit_graph(&door.graphs, asker, graph, wish).await? {
        GraphEditOutcome::Applied { revision } => {
            Ok((StatusCode::OK, Json(AppliedEdit { graph_id, revision })).into_response())
        }
        GraphEditOutcome::Undecided { event_id } => {
            let accepted = GraphEditAccepted { graph_id, event_id: event_id.to_string() };
            let mut response = (StatusCode::ACCEPTED, Json(accepted)).into_response();
            if let Ok(location) = HeaderValue::from_str(&format!("/v1/events/{event_id}")) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            Ok(response)
        }
    }
}

fn read_edit_request(text: &str, idempotency_key: Option<String>) -> Result<EditsToApply, RequestRefusal> {
    let mut fields = JsonFields::of(text, "").map_err(RequestRefusal::invalid)?;
    let expected_revision = fields.whole_number("expected_revision", 0..=u32::MAX);
    if expected_revision.is_none() && !fields.has_fault("expected_revision") {
        fields.add_fault("expected_revision", "is required: the revision that the edits are based on");
    }
    let edits = decode_edits(&mut fields);
    if edits.is_none() && !fields.has_fault("edits") {
        fields.add_fault("edits", "is required");
    }
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    let (expected_revision, edits) = (expected_revision.unwrap_or_default(), edits.unwrap_or_default());
    Ok(EditsToApply { expected_revision, edits, idempotency_key })
}

/// `[{"insert": NODE} | {"update": NODE} | {"delete": ID}]`.
pub(super) fn decode_edits(fields: &mut JsonFields<'_>) -> Option<Vec<NodeEdit>> {
    let text = fields.take_field("edits")?;
    match json::decode_json::<Vec<NodeEdit>>(text, "edits") {
        Ok(edits) => {
            fields.add_faults(json::edit_depth_faults(&edits));
            Some(edits)
        }
        Err(faults) => {
            fields.add_faults(faults);
            None
        }
    }
}

//! `POST /v1/graphs/{graph_id}/edits`: changes the shape of a running graph.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use millstream_core::graph::NodeEdit;
use millstream_core::permission::Permission;

use super::json;
use super::views::{EditAcceptedOut, EditedOut};
use crate::auth::Caller;
use crate::body::{Allowance, Body, Media};
use crate::door::Door;
use crate::fields::Fields;
use crate::gate::Slot;
use crate::graphs::edit::{self, Asker, Edited, Wish};
use crate::graphs::find;
use crate::http::posting;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::prefer::Prefer;
use crate::query::Params;
use crate::trace::Trace;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/graphs/{graph_id}/edits", "edit_graph", post)
            .summary("Insert, update and delete nodes; all edits are applied, or none")
            .needs(Permission::PostEvents)
            .headers(&["Idempotency-Key", "Prefer", "traceparent", "x-request-id"])
            .body("application/json", "GraphEdits")
            .answer(200, "GraphEdited", "Applied")
            .answer(202, "GraphEditAccepted", "Durable; not decided before the wait timed out")
            .problems(&[404, 409]),
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
    Media::of(&parts.headers, &[Media::Json])?;
    let prefer = Prefer::of(&parts.headers)?;
    let idempotency_key = posting::idempotency_header(&parts.headers)?;
    let limits = &door.options.limits;
    let allowed = Allowance { bytes: limits.message_bytes, time: limits.body_timeout };
    let body = Body::read(body, &parts.headers, allowed, &door.bodies.of_caller(&parts.extensions)).await?;
    let wish = read(body.json()?, idempotency_key)?;
    let patience = prefer.patience(Some(edit::WAIT), door.options.max_wait);
    let asker = Asker { caller: &caller, trace: &trace, slot: &slot, patience };
    let graph_id = graph.execution.clone();
    match edit::edit(&door, asker, graph, wish).await? {
        Edited::Applied { revision } => {
            Ok((StatusCode::OK, Json(EditedOut { graph_id, revision })).into_response())
        }
        Edited::Undecided { event_id } => {
            let accepted = EditAcceptedOut { graph_id, event_id };
            let mut response = (StatusCode::ACCEPTED, Json(accepted)).into_response();
            if let Ok(location) = HeaderValue::from_str(&format!("/v1/events/{event_id}")) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            Ok(response)
        }
    }
}

fn read(text: &str, idempotency_key: Option<String>) -> Result<Wish, Problem> {
    let mut fields = Fields::of(text, "").map_err(Problem::invalid)?;
    let expected_revision = fields.whole("expected_revision", 0..=u32::MAX);
    if expected_revision.is_none() && !fields.has_fault("expected_revision") {
        fields.fault("expected_revision", "is required: the revision that the edits are based on");
    }
    let edits = edits(&mut fields);
    if edits.is_none() && !fields.has_fault("edits") {
        fields.fault("edits", "is required");
    }
    fields.finish().map_err(Problem::invalid)?;
    let (expected_revision, edits) = (expected_revision.unwrap_or_default(), edits.unwrap_or_default());
    Ok(Wish { expected_revision, edits, idempotency_key })
}

/// `[{"insert": NODE} | {"update": NODE} | {"delete": ID}]`.
pub(super) fn edits(fields: &mut Fields<'_>) -> Option<Vec<NodeEdit>> {
    let text = fields.take("edits")?;
    match json::decode::<Vec<NodeEdit>>(text, "edits") {
        Ok(edits) => {
            fields.faults(json::too_deep_in_edits(&edits));
            Some(edits)
        }
        Err(faults) => {
            fields.faults(faults);
            None
        }
    }
}

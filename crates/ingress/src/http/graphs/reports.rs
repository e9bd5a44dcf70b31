//! Reports of executors about a node: progress, and the outcome of an attempt.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_api::graph_nodes::{GraphNode, NodeAttemptProgress, NodeAttemptResult, NodeHeld};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_rpc::read::MAX_ERROR_CHARS;
use millstream_store::action_store::OutcomeDemand;
use millstream_workflow::graph::limits::MAX_RESULT_BYTES;
use millstream_workflow::graph::{NodeStatus, NodeToken};

use super::edits::decode_edits;
use super::views::graph_node;
use crate::auth::TenantCaller;
use crate::graphs::attempt::AttemptReference;
use crate::graphs::progress::{self, ProgressReport};
use crate::graphs::result::{self, NodeResultReport};
use crate::graphs::{find, nodes};
use crate::http::body::read_json_body;
use crate::http::fields::JsonFields;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::tasks::read_token;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::trace::TraceContext;

const PROGRESS_BYTES: usize = 16 * 1024;
/// Body limit of a progress report, log text included.
const PROGRESS_BODY: usize = 256 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/graphs/{graph_id}/nodes/{node}/result", "report_result", report_result)
            .summary("Report the outcome of an attempt at a node")
            .needs(Permission::ServeNodes)
            .accepts::<NodeAttemptResult>()
            .returns::<GraphNode>(200, "Recorded; the graph may apply it a moment later")
            .problems(&[404, 409]),
        Route::post("/v1/graphs/{graph_id}/nodes/{node}/progress", "report_progress", report_progress)
            .summary("Report the progress of an attempt at a node")
            .needs(Permission::ServeNodes)
            .accepts::<NodeAttemptProgress>()
            .returns::<NodeHeld>(200, "Heard")
            .problems(&[404, 409]),
    ]
}

async fn report_result(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    trace: TraceContext,
    Path((id, node)): Path<(String, String)>,
    params: QueryParams,
    request: Request,
) -> Result<Json<GraphNode<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let (graph, node) = (find::parse_graph_key(&caller, &id)?, nodes::parse_node_id(&node)?);
    let body = read_json_body(&door, request, door.options.limits.message_bytes).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let said = read_attempt_reference(&mut fields);
    let status = required_status(&mut fields);
    let result = fields.raw_json_or_null("result");
    if let Some(result) = result.as_ref().filter(|result| result.len() > MAX_RESULT_BYTES) {
        let message = format!("is {} bytes long, at most {MAX_RESULT_BYTES} are kept", result.len());
        fields.add_fault("result", message);
    }
    let error = fields.take_text("error").map(|text| text.chars().take(MAX_ERROR_CHARS).collect());
    let edits = decode_edits(&mut fields).unwrap_or_default();
    let logs = fields.take_text("logs").unwrap_or_default().into_owned();
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    // Unreachable: a missing status is a fault, which `finish` reports.
    let status = status.unwrap_or(NodeStatus::TaskError);
    let report = NodeResultReport { status, result, error, edits, logs };
    let view = result::report_result(&door.graphs, &trace, &graph, &node, &said, report).await?;
    Ok(Json(graph_node(view)))
}

async fn report_progress(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path((id, node)): Path<(String, String)>,
    params: QueryParams,
    request: Request,
) -> Result<Json<NodeHeld>, RequestRefusal> {
    params.finish_params()?;
    let (graph, node) = (find::parse_graph_key(&caller, &id)?, nodes::parse_node_id(&node)?);
    let body = read_json_body(&door, request, PROGRESS_BODY).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let said = read_attempt_reference(&mut fields);
    let progress = fields.raw_json("progress");
    if progress.as_ref().is_some_and(|progress| progress.len() > PROGRESS_BYTES) {
        fields.add_fault("progress", format!("has more than {PROGRESS_BYTES} bytes"));
    }
    let logs = fields.take_text("logs").unwrap_or_default().into_owned();
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    let update = ProgressReport { progress, logs };
    let (_, wanted) = progress::report_progress(&door.graphs, &graph, &node, &said, update).await?;
    Ok(Json(NodeHeld { cancelled: wanted == OutcomeDemand::Cancelled }))
}

fn read_attempt_reference(fields: &mut JsonFields<'_>) -> AttemptReference {
    let token = NodeToken::from_executor(read_token(fields).0);
    let attempt = fields.whole_number("attempt", 1..=u32::MAX);
    let idempotency_key = fields.take_text("idempotency_key").map(|text| text.into_owned());
    AttemptReference { token, attempt, idempotency_key }
}

/// Accepts only statuses that an attempt can end with.
fn required_status(fields: &mut JsonFields<'_>) -> Option<NodeStatus> {
    let word = fields.required_text("status")?;
    let status = NodeStatus::parse(&word);
    let status = status.filter(|status| *status == NodeStatus::Pass || status.is_failure());
    if status.is_none() {
        fields.add_fault("status", "must be PASS, FAIL, TASK_ERROR, INFRA_ERROR, TIMEOUT or CRASH");
    }
    status
}

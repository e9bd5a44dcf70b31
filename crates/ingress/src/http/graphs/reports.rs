//! Reports of executors about a node: progress, and the outcome of an attempt.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_core::graph::limits::MAX_RESULT_BYTES;
use millstream_core::graph::{NodeStatus, Token};
use millstream_core::permission::Permission;
use millstream_rpc::read::MAX_ERROR_CHARS;
use millstream_store::action_store::Wanted;
use serde::Serialize;

use super::edits::edits;
use super::views::NodeOut;
use crate::auth::Caller;
use crate::door::Door;
use crate::fields::Fields;
use crate::graphs::attempt::Said;
use crate::graphs::progress::{self, Progress};
use crate::graphs::result::{self, Report};
use crate::graphs::{find, nodes};
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::tasks::{read, token};
use crate::query::Params;
use crate::trace::Trace;

const PROGRESS_BYTES: usize = 16 * 1024;
/// Body limit of a progress report, log text included.
const PROGRESS_BODY: usize = 256 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/graphs/{graph_id}/nodes/{node}/result", "report_result", report_result)
            .summary("Report the outcome of an attempt at a node")
            .needs(Permission::ServeNodes)
            .body("application/json", "NodeResult")
            .answer(200, "Node", "Recorded; the graph may apply it a moment later")
            .problems(&[404, 409]),
        Route::post("/v1/graphs/{graph_id}/nodes/{node}/progress", "report_progress", report_progress)
            .summary("Report the progress of an attempt at a node")
            .needs(Permission::ServeNodes)
            .body("application/json", "NodeProgress")
            .answer(200, "NodeHeld", "Heard")
            .problems(&[404, 409]),
    ]
}

async fn report_result(
    State(door): State<Arc<Door>>,
    caller: Caller,
    trace: Trace,
    Path((id, node)): Path<(String, String)>,
    params: Params,
    request: Request,
) -> Result<Json<NodeOut>, Problem> {
    params.finish()?;
    let (graph, node) = (find::key_of(&caller, &id)?, nodes::id_of(&node)?);
    let body = read(&door, request, door.options.limits.message_bytes).await?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let said = said(&mut fields);
    let status = status(&mut fields);
    let result = fields.raw_or_null("result");
    if let Some(result) = result.as_ref().filter(|result| result.len() > MAX_RESULT_BYTES) {
        let message = format!("is {} bytes long, at most {MAX_RESULT_BYTES} are kept", result.len());
        fields.fault("result", message);
    }
    let error = fields.text("error").map(|text| text.chars().take(MAX_ERROR_CHARS).collect());
    let edits = edits(&mut fields).unwrap_or_default();
    let logs = fields.text("logs").unwrap_or_default().into_owned();
    fields.finish().map_err(Problem::invalid)?;
    // Unreachable: a missing status is a fault, which `finish` reports.
    let status = status.unwrap_or(NodeStatus::TaskError);
    let report = Report { status, result, error, edits, logs };
    let view = result::report(&door, &trace, &graph, &node, &said, report).await?;
    Ok(Json(NodeOut::brief(view)))
}

#[derive(Debug, Serialize)]
struct HeldOut {
    /// The result is no longer wanted.
    cancelled: bool,
}

async fn report_progress(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path((id, node)): Path<(String, String)>,
    params: Params,
    request: Request,
) -> Result<Json<HeldOut>, Problem> {
    params.finish()?;
    let (graph, node) = (find::key_of(&caller, &id)?, nodes::id_of(&node)?);
    let body = read(&door, request, PROGRESS_BODY).await?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let said = said(&mut fields);
    let progress = fields.raw("progress");
    if progress.as_ref().is_some_and(|progress| progress.len() > PROGRESS_BYTES) {
        fields.fault("progress", format!("has more than {PROGRESS_BYTES} bytes"));
    }
    let logs = fields.text("logs").unwrap_or_default().into_owned();
    fields.finish().map_err(Problem::invalid)?;
    let update = Progress { progress, logs };
    let (_, wanted) = progress::report(&door, &graph, &node, &said, update).await?;
    Ok(Json(HeldOut { cancelled: wanted == Wanted::Cancelled }))
}

fn said(fields: &mut Fields<'_>) -> Said {
    let token = Token::shown(token(fields).0);
    let attempt = fields.whole("attempt", 1..=u32::MAX);
    let idempotency_key = fields.text("idempotency_key").map(|text| text.into_owned());
    Said { token, attempt, idempotency_key }
}

/// Accepts only statuses that an attempt can end with.
fn status(fields: &mut Fields<'_>) -> Option<NodeStatus> {
    let word = fields.required("status")?;
    let status = NodeStatus::parse(&word);
    let status = status.filter(|status| *status == NodeStatus::Pass || status.is_failure());
    if status.is_none() {
        fields.fault("status", "must be PASS, FAIL, TASK_ERROR, INFRA_ERROR, TIMEOUT or CRASH");
    }
    status
}

//! Operator actions on runs: pause, resume, cancel, retry, assign.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_api::reason::Reason;
use millstream_api::run_acts::RunAssign;
use millstream_api::runs::RunSummary;
use millstream_devices::claim::RunInput;
use millstream_model::id::DeviceId;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_store::run_service::RunOperation;

use super::acts::read_seat;
use super::views::{RunDetail, run_summary};
use crate::auth::TenantCaller;
use crate::devices::{heartbeat, runs};
use crate::http::body::read_json_body;
use crate::http::fields::JsonFields;
use crate::http::interventions::read_reason;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

const BODY_BYTES: usize = 16 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/runs/{run_id}/pause", "pause_run", pause_run)
            .summary("Pause a run: no new assignments; its current devices keep it and are notified")
            .needs(Permission::Operate)
            .returns::<RunSummary>(200, "Paused")
            .problems(&[404, 409]),
        Route::post("/v1/runs/{run_id}/resume", "resume_run", resume_run)
            .summary("Resume a paused run; all its time limits start again")
            .needs(Permission::Operate)
            .returns::<RunSummary>(200, "Resumed")
            .problems(&[404, 409]),
        Route::post("/v1/runs/{run_id}/retry", "retry_run", retry_run)
            .summary("Retry a failed run; every device may be asked")
            .needs(Permission::Operate)
            .returns::<RunSummary>(200, "Restarted")
            .problems(&[404, 409]),
        Route::post("/v1/runs/{run_id}/cancel", "cancel_run", cancel_run)
            .summary("End a run as failed; its devices are notified")
            .needs(Permission::Operate)
            .accepts::<Reason>()
            .body_optional()
            .returns::<RunSummary>(200, "Ended")
            .problems(&[404, 409]),
        Route::post("/v1/runs/{run_id}/assign", "assign_run", assign_run)
            .summary("Assign an unassigned seat to a device")
            .needs(Permission::Operate)
            .accepts::<RunAssign>()
            .returns::<RunSummary>(200, "Assigned; the device is asked")
            .problems(&[404, 409]),
    ]
}

async fn apply_run_input(
    door: &IngressState,
    caller: &TenantCaller,
    id: &str,
    input: RunInput,
) -> Result<Json<RunSummary<RawJson>>, RequestRefusal> {
    let key = runs::parse_run_key(caller, id)?;
    let run =
        runs::apply_to_run(&door.devices, &key, &RunOperation::Input(input), caller.actor.as_deref()).await?;
    Ok(Json(run_summary(key.run, run, RunDetail::Whole)))
}

async fn pause_run(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<RunSummary<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    apply_run_input(&door, &caller, &id, RunInput::Pause).await
}

async fn resume_run(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<RunSummary<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    apply_run_input(&door, &caller, &id, RunInput::Resume).await
}

async fn retry_run(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<RunSummary<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    apply_run_input(&door, &caller, &id, RunInput::Retry).await
}

async fn cancel_run(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<RunSummary<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let (parts, body) = request.into_parts();
    let reason = read_reason(&door, &parts.headers, body).await?;
    apply_run_input(&door, &caller, &id, RunInput::Cancel { reason }).await
}

async fn assign_run(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<RunSummary<RawJson>>, RequestRefusal> {
    params.finish_params()?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let mut fields = JsonFields::of(body.json()?, "").map_err(RequestRefusal::invalid)?;
    let given = fields.required_text("device");
    let device = fields.parse_text("device", given, |text: &str| DeviceId::parse(text));
    let seat = read_seat(&mut fields).unwrap_or(0);
    fields.finish_fields().map_err(RequestRefusal::invalid)?;
    // Unreachable: a missing device is a fault, which `finish` reports.
    let Some(device) = device else { return Err(RequestRefusal::bad_request("device is missing")) };
    heartbeat::find_device(&door.devices, &heartbeat::parse_device_key(&caller, device.as_str())?).await?;
    apply_run_input(&door, &caller, &id, RunInput::Assign { seat, device, decision: None }).await
}

//! Operator actions on runs: pause, resume, cancel, retry, assign.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_core::claim::Input;
use millstream_core::id::DeviceId;
use millstream_core::permission::Permission;
use millstream_store::running::Ask;

use super::acts::seat;
use super::views::RunOut;
use crate::auth::Caller;
use crate::devices::{beat, runs};
use crate::door::Door;
use crate::fields::Fields;
use crate::http::interventions::reason;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::tasks::read;
use crate::query::Params;

const BODY_BYTES: usize = 16 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/runs/{run_id}/pause", "pause_run", pause)
            .summary("Pause a run: no new assignments; its current devices keep it and are notified")
            .needs(Permission::Operate)
            .answer(200, "Run", "Paused")
            .problems(&[404, 409]),
        Route::post("/v1/runs/{run_id}/resume", "resume_run", resume)
            .summary("Resume a paused run; all its time limits start again")
            .needs(Permission::Operate)
            .answer(200, "Run", "Resumed")
            .problems(&[404, 409]),
        Route::post("/v1/runs/{run_id}/retry", "retry_run", retry)
            .summary("Retry a failed run; every device may be asked")
            .needs(Permission::Operate)
            .answer(200, "Run", "Restarted")
            .problems(&[404, 409]),
        Route::post("/v1/runs/{run_id}/cancel", "cancel_run", cancel)
            .summary("End a run as failed; its devices are notified")
            .needs(Permission::Operate)
            .body("application/json", "Reason")
            .body_optional()
            .answer(200, "Run", "Ended")
            .problems(&[404, 409]),
        Route::post("/v1/runs/{run_id}/assign", "assign_run", assign)
            .summary("Assign an unassigned seat to a device")
            .needs(Permission::Operate)
            .body("application/json", "RunAssign")
            .answer(200, "Run", "Assigned; the device is asked")
            .problems(&[404, 409]),
    ]
}

async fn done(door: &Door, caller: &Caller, id: &str, input: Input) -> Result<Json<RunOut>, Problem> {
    let key = runs::key_of(caller, id)?;
    let run = runs::act(door, &key, &Ask::Input(input), caller.actor.as_deref()).await?;
    Ok(Json(RunOut::whole(key.run, run)))
}

async fn pause(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<RunOut>, Problem> {
    params.finish()?;
    done(&door, &caller, &id, Input::Pause).await
}

async fn resume(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<RunOut>, Problem> {
    params.finish()?;
    done(&door, &caller, &id, Input::Resume).await
}

async fn retry(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<RunOut>, Problem> {
    params.finish()?;
    done(&door, &caller, &id, Input::Retry).await
}

async fn cancel(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<RunOut>, Problem> {
    params.finish()?;
    let (parts, body) = request.into_parts();
    let reason = reason(&door, &parts.headers, body).await?;
    done(&door, &caller, &id, Input::Cancel { reason }).await
}

async fn assign(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<RunOut>, Problem> {
    params.finish()?;
    let body = read(&door, request, BODY_BYTES).await?;
    let mut fields = Fields::of(body.json()?, "").map_err(Problem::invalid)?;
    let given = fields.required("device");
    let device = fields.parsed("device", given, |text: &str| DeviceId::parse(text));
    let seat = seat(&mut fields).unwrap_or(0);
    fields.finish().map_err(Problem::invalid)?;
    // Unreachable: a missing device is a fault, which `finish` reports.
    let Some(device) = device else { return Err(Problem::bad_request("device is missing")) };
    beat::find(&door, &beat::key_of(&caller, device.as_str())?).await?;
    done(&door, &caller, &id, Input::Assign { seat, device, decision: None }).await
}

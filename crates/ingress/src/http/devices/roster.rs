//! The device roster: register, list, pause, resume, delete.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use millstream_core::claim::Candidate;
use millstream_core::id::DeviceId;
use millstream_core::permission::Permission;
use millstream_core::status::PauseState;

use super::views::{DeviceOut, NewDevice};
use crate::auth::Caller;
use crate::cursor::{self, List};
use crate::devices::{beat, leave};
use crate::door::Door;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::strict::decode_object;
use crate::http::tasks::read;
use crate::http::views::Page;
use crate::query::Params;

const BODY_BYTES: usize = 64 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::put("/v1/devices/{device_id}", "put_device", register)
            .summary("Register a device, or replace its description")
            .needs(Permission::ActAsDevice)
            .body("application/json", "NewDevice")
            .answer(200, "Device", "The device as registered")
            .problems(&[404])
            .leads_to("get_device", &["device_id"])
            .leads_to("get_assignments", &["device_id"]),
        Route::get("/v1/devices", "list_devices", list)
            .summary("Devices in the order of their ids")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .answer(200, "DevicePage", "One page"),
        Route::get("/v1/devices/{device_id}", "get_device", get)
            .summary("One device, and how many seats it has been assigned")
            .needs(Permission::ReadData)
            .answer(200, "Device", "The device")
            .problems(&[404]),
        Route::post("/v1/devices/{device_id}/pause", "pause_device", pause)
            .summary("Pause a device: it gets no new assignments and keeps its current ones")
            .needs(Permission::Operate)
            .answer(200, "Device", "Paused")
            .problems(&[404]),
        Route::post("/v1/devices/{device_id}/resume", "resume_device", resume)
            .summary("Resume a device: it gets assignments again")
            .needs(Permission::Operate)
            .answer(200, "Device", "Resumed")
            .problems(&[404]),
        Route::delete("/v1/devices/{device_id}", "delete_device", delete)
            .summary("Delete a device; its runs are reassigned to other devices")
            .needs(Permission::ActAsDevice)
            .answer_in(204, "", "", "The device is not registered (any more)")
            .problems(&[404]),
    ]
}

async fn register(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<DeviceOut>, Problem> {
    params.finish()?;
    let key = beat::key_of(&caller, &id)?;
    let body = read(&door, request, BODY_BYTES).await?;
    let given: NewDevice = decode_object(body.json()?).map_err(Problem::invalid)?;
    let device = given.device(key.device.clone(), door.clock.now()).map_err(Problem::invalid)?;
    door.hear_device(&caller.tenant, device).await?;
    Ok(Json(beat::find(&door, &key).await?.into()))
}

async fn list(
    State(door): State<Arc<Door>>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Page<DeviceOut>>, Problem> {
    let limit = params.limit(100, 1_000);
    let after = params.cursor(List::Devices, |text| DeviceId::parse(text).ok());
    params.finish()?;
    let found = door.stores.devices.roster(&caller.tenant, after.as_ref(), limit + 1).await?;
    let cursor = |last: &Candidate| cursor::encode(List::Devices, &last.device.id);
    Ok(Json(Page::of(found, limit, cursor, DeviceOut::from)))
}

async fn get(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<DeviceOut>, Problem> {
    params.finish()?;
    let key = beat::key_of(&caller, &id)?;
    Ok(Json(beat::find(&door, &key).await?.into()))
}

async fn pause(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<DeviceOut>, Problem> {
    params.finish()?;
    set_pause(&door, &caller, &id, PauseState::Paused).await
}

async fn resume(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<DeviceOut>, Problem> {
    params.finish()?;
    set_pause(&door, &caller, &id, PauseState::Running).await
}

async fn set_pause(
    door: &Door,
    caller: &Caller,
    id: &str,
    pause: PauseState,
) -> Result<Json<DeviceOut>, Problem> {
    let key = beat::key_of(caller, id)?;
    door.stores.devices.pause_devices(std::slice::from_ref(&key), pause).await?;
    door.fleet.rosters.forget(&key.tenant);
    Ok(Json(beat::find(door, &key).await?.into()))
}

async fn delete(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<StatusCode, Problem> {
    params.finish()?;
    let key = beat::key_of(&caller, &id)?;
    leave::leave(&door, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! The device roster: register, list, pause, resume, delete.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use millstream_api::devices::{DeviceView, NewDevice};
use millstream_api::page::Page;
use millstream_devices::claim::DeviceCandidate;
use millstream_model::id::DeviceId;
use millstream_model::permission::Permission;
use millstream_model::status::PauseState;

use super::views::{NewDeviceRequest, device_view};
use crate::auth::TenantCaller;
use crate::cursor::{self, CursorList};
use crate::devices::registration::{self, DeviceRegistration};
use crate::devices::{heartbeat, leave};
use crate::http::body::read_json_body;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::strict_json::decode_object;
use crate::http::views::page_of;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

const BODY_BYTES: usize = 64 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::put("/v1/devices/{device_id}", "put_device", put_device)
            .summary("Register a device, or replace its description")
            .needs(Permission::ActAsDevice)
            .accepts::<NewDevice>()
            .returns::<DeviceView>(200, "The device as registered")
            .problems(&[404])
            .leads_to("get_device", &["device_id"])
            .leads_to("get_assignments", &["device_id"]),
        Route::get("/v1/devices", "list_devices", list_devices)
            .summary("Devices in the order of their ids")
            .needs(Permission::ReadData)
            .query(&[("limit", "LongLimit"), ("cursor", "Cursor")])
            .returns::<Page<DeviceView>>(200, "One page"),
        Route::get("/v1/devices/{device_id}", "get_device", get_device)
            .summary("One device, and how many seats it has been assigned")
            .needs(Permission::ReadData)
            .returns::<DeviceView>(200, "The device")
            .problems(&[404]),
        Route::post("/v1/devices/{device_id}/pause", "pause_device", pause_device)
            .summary("Pause a device: it gets no new assignments and keeps its current ones")
            .needs(Permission::Operate)
            .returns::<DeviceView>(200, "Paused")
            .problems(&[404]),
        Route::post("/v1/devices/{device_id}/resume", "resume_device", resume_device)
            .summary("Resume a device: it gets assignments again")
            .needs(Permission::Operate)
            .returns::<DeviceView>(200, "Resumed")
            .problems(&[404]),
        Route::delete("/v1/devices/{device_id}", "delete_device", delete_device)
            .summary("Delete a device; its runs are reassigned to other devices")
            .needs(Permission::ActAsDevice)
            .returns_nothing(204, "The device is not registered (any more)")
            .problems(&[404]),
    ]
}

async fn put_device(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<DeviceView>, RequestRefusal> {
    params.finish_params()?;
    let key = heartbeat::parse_device_key(&caller, &id)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let given: NewDeviceRequest = decode_object(body.json()?).map_err(RequestRefusal::invalid)?;
    let device = DeviceRegistration::from(given)
        .into_device(key.device.clone(), door.clock.now())
        .map_err(RequestRefusal::invalid)?;
    registration::register_device(&door.devices, &caller.tenant, device).await?;
    Ok(Json(device_view(heartbeat::find_device(&door.devices, &key).await?)))
}

async fn list_devices(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    mut params: QueryParams,
) -> Result<Json<Page<DeviceView>>, RequestRefusal> {
    let limit = params.parse_limit(100, 1_000);
    let after = params.parse_cursor(CursorList::Devices, |text| DeviceId::parse(text).ok());
    params.finish_params()?;
    let found = door.stores.devices.read_roster(&caller.tenant, after.as_ref(), limit + 1).await?;
    let cursor = |last: &DeviceCandidate| cursor::encode(CursorList::Devices, &last.device.id);
    Ok(Json(page_of(found, limit, cursor, device_view)))
}

async fn get_device(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<DeviceView>, RequestRefusal> {
    params.finish_params()?;
    let key = heartbeat::parse_device_key(&caller, &id)?;
    Ok(Json(device_view(heartbeat::find_device(&door.devices, &key).await?)))
}

async fn pause_device(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<DeviceView>, RequestRefusal> {
    params.finish_params()?;
    set_device_pause(&door, &caller, &id, PauseState::Paused).await
}

async fn resume_device(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<DeviceView>, RequestRefusal> {
    params.finish_params()?;
    set_device_pause(&door, &caller, &id, PauseState::Running).await
}

async fn set_device_pause(
    door: &IngressState,
    caller: &TenantCaller,
    id: &str,
    pause: PauseState,
) -> Result<Json<DeviceView>, RequestRefusal> {
    let key = heartbeat::parse_device_key(caller, id)?;
    door.stores.devices.pause_devices(std::slice::from_ref(&key), pause).await?;
    door.devices.fleet.rosters.invalidate_tenant(&key.tenant);
    Ok(Json(device_view(heartbeat::find_device(&door.devices, &key).await?)))
}

async fn delete_device(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<StatusCode, RequestRefusal> {
    params.finish_params()?;
    let key = heartbeat::parse_device_key(&caller, &id)?;
    leave::remove_device(&door.devices, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! Device heartbeat: records that the device is alive, and returns which of its runs it still holds.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_devices::claim::{SeatProgress, SeatStatus, SeatToken};
use millstream_model::id::RunId;
use millstream_model::permission::Permission;
use millstream_model::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use crate::auth::TenantCaller;
use crate::devices::heartbeat::{self, DeviceReadings, HeartbeatReply, HeartbeatRun};
use crate::http::body::read_json_body;
use crate::http::problem::SeatHolderOut;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::strict_json::{StrictObject, decode_object, objects, whole, whole_or_none};
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

const BODY_BYTES: usize = 512 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/devices/{device_id}/heartbeat", "heartbeat_device", heartbeat_device)
            .summary("Record a device heartbeat: its state and the runs that it works on")
            .needs(Permission::ActAsDevice)
            .body("application/json", "DeviceHeartbeat")
            .answer(200, "DeviceHeard", "Which of the runs the device still holds, in the order given")
            .problems(&[404]),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct DeviceHeartbeatRequest {
    load: Option<f64>,
    quality: Option<f64>,
    #[serde(default, deserialize_with = "whole_or_none")]
    battery: Option<u8>,
    on_battery: Option<bool>,
    #[serde(default, deserialize_with = "objects")]
    runs: Vec<RunHeartbeatRequest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct RunHeartbeatRequest {
    run_id: RunId,
    #[serde(default, deserialize_with = "whole")]
    seat: u16,
    #[serde(deserialize_with = "whole")]
    token: i64,
    #[serde(default, deserialize_with = "steps")]
    progress: Option<SeatProgress>,
}

fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SeatProgress>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ProgressSteps {
        #[serde(deserialize_with = "whole")]
        step: u64,
        #[serde(deserialize_with = "whole")]
        total: u64,
        note: Option<String>,
    }
    let steps = Option::<StrictObject<ProgressSteps>>::deserialize(deserializer)?;
    Ok(steps.map(|StrictObject(ProgressSteps { step, total, note })| SeatProgress { step, total, note }))
}

#[derive(Debug, Serialize)]
struct DeviceHeartbeatOut {
    runs: Vec<RunHeartbeatOut>,
}

#[derive(Debug, Serialize)]
struct RunHeartbeatOut {
    run_id: RunId,
    seat: u16,
    token: SeatToken,
    /// The device holds the seat, or is offered it.
    held: bool,
    /// The device must stop working on the run.
    release: bool,
    paused: bool,
    /// The deadline of the next heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// The status of the seat, if the device does not hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<SeatStatus>,
    /// The current holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<SeatHolderOut>,
}

async fn heartbeat_device(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<DeviceHeartbeatOut>, RequestRefusal> {
    params.finish_params()?;
    let key = heartbeat::parse_device_key(&caller, &id)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let given: DeviceHeartbeatRequest = decode_object(body.json()?).map_err(RequestRefusal::invalid)?;
    let runs = heartbeat::record_heartbeat(&door.devices, &key, given.into()).await?;
    Ok(Json(DeviceHeartbeatOut {
        runs: runs.into_iter().map(|(said, heard)| view_run_heartbeat(said, heard)).collect(),
    }))
}

impl From<DeviceHeartbeatRequest> for DeviceReadings {
    fn from(given: DeviceHeartbeatRequest) -> Self {
        let DeviceHeartbeatRequest { load, quality, battery, on_battery, runs } = given;
        let runs = runs.into_iter().map(HeartbeatRun::from).collect();
        Self { load, quality, battery, on_battery, runs }
    }
}

impl From<RunHeartbeatRequest> for HeartbeatRun {
    fn from(RunHeartbeatRequest { run_id, seat, token, progress }: RunHeartbeatRequest) -> Self {
        Self { run: run_id, seat, token: SeatToken(token), progress }
    }
}

fn view_run_heartbeat(said: HeartbeatRun, heard: HeartbeatReply) -> RunHeartbeatOut {
    let HeartbeatRun { run, seat, token, progress: _ } = said;
    let one = RunHeartbeatOut {
        run_id: run,
        seat,
        token,
        held: true,
        release: false,
        paused: false,
        until: None,
        status: None,
        holder: None,
    };
    match heard {
        HeartbeatReply::Held { until, paused } => RunHeartbeatOut { until: Some(until), paused, ..one },
        HeartbeatReply::Asked => one,
        HeartbeatReply::Lost { status, holder } => RunHeartbeatOut {
            held: false,
            release: true,
            status,
            holder: holder.map(SeatHolderOut::from),
            ..one
        },
    }
}

//! Device heartbeat: records that the device is alive, and returns which of its runs it still holds.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_api::devices::{DeviceHeard, DeviceHeartbeat, RunHeartbeatAnswer};
use millstream_devices::claim::{SeatProgress, SeatToken};
use millstream_model::id::RunId;
use millstream_model::permission::Permission;
use serde::{Deserialize, Deserializer};

use crate::auth::TenantCaller;
use crate::devices::heartbeat::{self, DeviceReadings, HeartbeatReply, HeartbeatRun};
use crate::http::body::read_json_body;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::runs::views::seat_holder;
use crate::http::runs::words::run_status;
use crate::http::strict_json::{StrictObject, decode_object, objects, whole, whole_or_none};
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

const BODY_BYTES: usize = 512 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/devices/{device_id}/heartbeat", "heartbeat_device", heartbeat_device)
            .summary("Record a device heartbeat: its state and the runs that it works on")
            .needs(Permission::ActAsDevice)
            .accepts::<DeviceHeartbeat>()
            .returns::<DeviceHeard>(200, "Which of the runs the device still holds, in the order given")
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

async fn heartbeat_device(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    Path(id): Path<String>,
    params: QueryParams,
    request: Request,
) -> Result<Json<DeviceHeard>, RequestRefusal> {
    params.finish_params()?;
    let key = heartbeat::parse_device_key(&caller, &id)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let given: DeviceHeartbeatRequest = decode_object(body.json()?).map_err(RequestRefusal::invalid)?;
    let runs = heartbeat::record_heartbeat(&door.devices, &key, given.into()).await?;
    Ok(Json(DeviceHeard {
        runs: runs.into_iter().map(|(said, heard)| run_heartbeat_answer(said, heard)).collect(),
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

fn run_heartbeat_answer(said: HeartbeatRun, heard: HeartbeatReply) -> RunHeartbeatAnswer {
    let HeartbeatRun { run, seat, token, progress: _ } = said;
    let one = RunHeartbeatAnswer {
        run_id: run.to_string(),
        seat,
        token: token.0,
        held: true,
        release: false,
        paused: false,
        until: None,
        status: None,
        holder: None,
    };
    match heard {
        HeartbeatReply::Held { until, paused } => RunHeartbeatAnswer { until: Some(until), paused, ..one },
        HeartbeatReply::Asked => one,
        HeartbeatReply::Lost { status, holder } => RunHeartbeatAnswer {
            held: false,
            release: true,
            status: status.map(run_status),
            holder: holder.map(seat_holder),
            ..one
        },
    }
}

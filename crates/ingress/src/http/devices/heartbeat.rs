//! Device heartbeat: records that the device is alive, and returns which of its runs it still holds.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_devices::claim::{DeviceReport, SeatProgress, SeatStatus, SeatToken};
use millstream_model::id::{DeviceKey, RunId};
use millstream_model::permission::Permission;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::views::fraction_faults;
use crate::auth::TenantCaller;
use crate::devices::batcher::SEATS;
use crate::devices::heartbeat::{self, HeartbeatReply, HeartbeatRun};
use crate::http::problem::{ApiProblem, SeatHolderOut};
use crate::http::route::Route;
use crate::http::runs::acts::MAX_NOTE;
use crate::http::strict_json::{StrictObject, decode_object, objects, whole, whole_or_none};
use crate::http::tasks::read_json_body;
use crate::query::QueryParams;
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
pub(crate) struct DeviceHeartbeatRequest {
    pub(crate) load: Option<f64>,
    pub(crate) quality: Option<f64>,
    #[serde(default, deserialize_with = "whole_or_none")]
    pub(crate) battery: Option<u8>,
    pub(crate) on_battery: Option<bool>,
    #[serde(default, deserialize_with = "objects")]
    pub(crate) runs: Vec<RunHeartbeatRequest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct RunHeartbeatRequest {
    pub(crate) run_id: RunId,
    #[serde(default, deserialize_with = "whole")]
    pub(crate) seat: u16,
    #[serde(deserialize_with = "whole")]
    pub(crate) token: i64,
    #[serde(default, deserialize_with = "steps")]
    pub(crate) progress: Option<SeatProgress>,
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
) -> Result<Json<DeviceHeartbeatOut>, ApiProblem> {
    params.finish_params()?;
    let key = heartbeat::parse_device_key(&caller, &id)?;
    let body = read_json_body(&door, request, BODY_BYTES).await?;
    let given: DeviceHeartbeatRequest = decode_object(body.json()?).map_err(ApiProblem::invalid)?;
    let runs = record_heartbeat(&door, &key, given).await?;
    Ok(Json(DeviceHeartbeatOut {
        runs: runs.into_iter().map(|(said, heard)| view_run_heartbeat(said, heard)).collect(),
    }))
}

/// Records a heartbeat. A field that is left out keeps its known value.
pub(crate) async fn record_heartbeat(
    door: &IngressState,
    key: &DeviceKey,
    given: DeviceHeartbeatRequest,
) -> Result<Vec<(HeartbeatRun, HeartbeatReply)>, ApiProblem> {
    let known = heartbeat::find_device(door, key).await?.device;
    let device = DeviceReport {
        load: given.load.unwrap_or(known.load),
        quality: given.quality.unwrap_or(known.quality),
        battery: given.battery.or(known.battery),
        on_battery: given.on_battery.unwrap_or(known.on_battery),
        ..known
    };
    let mut faults = fraction_faults(device.load, device.quality, device.battery);
    faults.extend(run_limit_faults(&given.runs));
    if !faults.is_empty() {
        return Err(ApiProblem::invalid(faults));
    }
    let said: Vec<HeartbeatRun> = given.runs.into_iter().map(HeartbeatRun::from).collect();
    let heard = heartbeat::record_heartbeat(door, key, device, &said).await?;
    Ok(said.into_iter().zip(heard).collect())
}

fn run_limit_faults(runs: &[RunHeartbeatRequest]) -> Vec<Fault> {
    let mut faults = Vec::new();
    if runs.len() > SEATS {
        faults.push(Fault::new("runs", format!("has {} items, at most {SEATS} are allowed", runs.len())));
    }
    for (at, run) in runs.iter().enumerate() {
        let note = run.progress.as_ref().and_then(|progress| progress.note.as_ref());
        if note.is_some_and(|note| note.chars().count() > MAX_NOTE) {
            let path = format!("runs[{at}].progress.note");
            faults.push(Fault::new(path, format!("has more than {MAX_NOTE} characters")));
        }
    }
    faults
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

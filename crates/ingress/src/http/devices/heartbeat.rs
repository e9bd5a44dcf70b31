//! Device heartbeat: records that the device is alive, and returns which of its runs it still holds.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use millstream_core::claim::{Device, Progress, Status, Token};
use millstream_core::id::{DeviceKey, RunId};
use millstream_core::permission::Permission;
use millstream_core::problem::Problem as Fault;
use millstream_core::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::views::shares;
use crate::auth::Caller;
use crate::devices::beat::{self, Heard, Said};
use crate::devices::fleet::SEATS;
use crate::door::Door;
use crate::http::problem::{HolderOut, Problem};
use crate::http::route::Route;
use crate::http::runs::acts::MAX_NOTE;
use crate::http::strict::{Object, decode_object, objects, whole, whole_or_none};
use crate::http::tasks::read;
use crate::query::Params;

const BODY_BYTES: usize = 512 * 1024;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/devices/{device_id}/heartbeat", "heartbeat_device", heartbeat)
            .summary("Record a device heartbeat: its state and the runs that it works on")
            .needs(Permission::ActAsDevice)
            .body("application/json", "DeviceHeartbeat")
            .answer(200, "DeviceHeard", "Which of the runs the device still holds, in the order given")
            .problems(&[404]),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct Beat {
    pub(crate) load: Option<f64>,
    pub(crate) quality: Option<f64>,
    #[serde(default, deserialize_with = "whole_or_none")]
    pub(crate) battery: Option<u8>,
    pub(crate) on_battery: Option<bool>,
    #[serde(default, deserialize_with = "objects")]
    pub(crate) runs: Vec<RunBeat>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct RunBeat {
    pub(crate) run_id: RunId,
    #[serde(default, deserialize_with = "whole")]
    pub(crate) seat: u16,
    #[serde(deserialize_with = "whole")]
    pub(crate) token: i64,
    #[serde(default, deserialize_with = "steps")]
    pub(crate) progress: Option<Progress>,
}

fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Progress>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Steps {
        #[serde(deserialize_with = "whole")]
        step: u64,
        #[serde(deserialize_with = "whole")]
        total: u64,
        note: Option<String>,
    }
    let steps = Option::<Object<Steps>>::deserialize(deserializer)?;
    Ok(steps.map(|Object(Steps { step, total, note })| Progress { step, total, note }))
}

#[derive(Debug, Serialize)]
struct HeardOut {
    runs: Vec<RunHeard>,
}

#[derive(Debug, Serialize)]
struct RunHeard {
    run_id: RunId,
    seat: u16,
    token: Token,
    /// The device holds the seat, or is offered it.
    yours: bool,
    /// The device must stop working on the run.
    release: bool,
    paused: bool,
    /// The deadline of the next heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// The status of the seat, if the device does not hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    /// The current holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<HolderOut>,
}

async fn heartbeat(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    request: Request,
) -> Result<Json<HeardOut>, Problem> {
    params.finish()?;
    let key = beat::key_of(&caller, &id)?;
    let body = read(&door, request, BODY_BYTES).await?;
    let given: Beat = decode_object(body.json()?).map_err(Problem::invalid)?;
    let runs = hear(&door, &key, given).await?;
    Ok(Json(HeardOut { runs: runs.into_iter().map(|(said, heard)| shown(said, heard)).collect() }))
}

/// Records a heartbeat. A field that is left out keeps its known value.
pub(crate) async fn hear(door: &Door, key: &DeviceKey, given: Beat) -> Result<Vec<(Said, Heard)>, Problem> {
    let known = beat::find(door, key).await?.device;
    let device = Device {
        load: given.load.unwrap_or(known.load),
        quality: given.quality.unwrap_or(known.quality),
        battery: given.battery.or(known.battery),
        on_battery: given.on_battery.unwrap_or(known.on_battery),
        ..known
    };
    let mut faults = shares(device.load, device.quality, device.battery);
    faults.extend(too_much(&given.runs));
    if !faults.is_empty() {
        return Err(Problem::invalid(faults));
    }
    let said: Vec<Said> = given.runs.into_iter().map(Said::from).collect();
    let heard = beat::heartbeat(door, key, device, &said).await?;
    Ok(said.into_iter().zip(heard).collect())
}

fn too_much(runs: &[RunBeat]) -> Vec<Fault> {
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

impl From<RunBeat> for Said {
    fn from(RunBeat { run_id, seat, token, progress }: RunBeat) -> Self {
        Self { run: run_id, seat, token: Token(token), progress }
    }
}

fn shown(said: Said, heard: Heard) -> RunHeard {
    let Said { run, seat, token, progress: _ } = said;
    let one = RunHeard {
        run_id: run,
        seat,
        token,
        yours: true,
        release: false,
        paused: false,
        until: None,
        status: None,
        holder: None,
    };
    match heard {
        Heard::Held { until, paused } => RunHeard { until: Some(until), paused, ..one },
        Heard::Asked => one,
        Heard::Lost { status, holder } => {
            RunHeard { yours: false, release: true, status, holder: holder.map(HolderOut::from), ..one }
        }
    }
}

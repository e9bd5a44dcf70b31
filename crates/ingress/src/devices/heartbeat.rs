//! Device heartbeats: a device reports that it is alive and learns for each of its runs whether it still
//! holds it.

use millstream_devices::claim::{
    CurrentSeatHolder, DeviceCandidate, DeviceReport, SeatProgress, SeatStatus, SeatToken,
};
use millstream_model::id::{DeviceId, DeviceKey, RunId, RunKey};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::run_store::{SeatHeartbeat, SeatPulse, StoredRun};

use super::DeviceDeps;
use super::acts::MAX_NOTE;
use super::batcher::SEATS;
use super::registration::{self, fraction_faults};
use crate::auth::TenantCaller;
use crate::refusal::RequestRefusal;

/// The key of a path; devices of other tenants are not found.
pub(crate) fn parse_device_key(caller: &TenantCaller, text: &str) -> Result<DeviceKey, RequestRefusal> {
    let device = DeviceId::parse(text).map_err(|_| RequestRefusal::not_found("device", text))?;
    caller.require_device(&device)?;
    Ok(DeviceKey { tenant: caller.tenant.clone(), device })
}

pub(crate) async fn find_device(
    deps: &DeviceDeps,
    key: &DeviceKey,
) -> Result<DeviceCandidate, RequestRefusal> {
    let found = deps.fleet.find_device(key.clone()).await?;
    found.ok_or_else(|| RequestRefusal::not_found("device", &key.device))
}

/// One run in a heartbeat, as the device reports it.
#[derive(Debug)]
pub(crate) struct HeartbeatRun {
    pub(crate) run: RunId,
    pub(crate) seat: u16,
    pub(crate) token: SeatToken,
    pub(crate) progress: Option<SeatProgress>,
}

/// The readings of a heartbeat. A field that is left out keeps its known value.
#[derive(Debug)]
pub(crate) struct DeviceReadings {
    pub(crate) load: Option<f64>,
    pub(crate) quality: Option<f64>,
    pub(crate) battery: Option<u8>,
    pub(crate) on_battery: Option<bool>,
    pub(crate) runs: Vec<HeartbeatRun>,
}

/// The reply for one run.
#[derive(Debug)]
pub(crate) enum HeartbeatReply {
    /// The claim holds; the next heartbeat is due by `until`.
    Held { until: Timestamp, paused: bool },
    /// The device is assigned this run and has not accepted it.
    Asked,
    /// The device does not hold it any more.
    Lost { status: Option<SeatStatus>, holder: Option<CurrentSeatHolder> },
}

/// Records a heartbeat. A field that is left out keeps its known value.
pub(crate) async fn record_heartbeat(
    deps: &DeviceDeps,
    key: &DeviceKey,
    given: DeviceReadings,
) -> Result<Vec<(HeartbeatRun, HeartbeatReply)>, RequestRefusal> {
    let known = find_device(deps, key).await?.device;
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
        return Err(RequestRefusal::invalid(faults));
    }
    let heard = record_beats(deps, key, device, &given.runs).await?;
    Ok(given.runs.into_iter().zip(heard).collect())
}

fn run_limit_faults(runs: &[HeartbeatRun]) -> Vec<Fault> {
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

async fn record_beats(
    deps: &DeviceDeps,
    key: &DeviceKey,
    device: DeviceReport,
    said: &[HeartbeatRun],
) -> Result<Vec<HeartbeatReply>, RequestRefusal> {
    registration::register_device(deps, &key.tenant, device).await?;
    let beats: Vec<SeatHeartbeat> = said.iter().map(|said| beat_of(key, said)).collect();
    let pulses = deps.fleet.record_beats(beats).await?;
    let lost: Vec<RunKey> = said
        .iter()
        .zip(&pulses)
        .filter(|(_, pulse)| matches!(pulse, SeatPulse::Lost))
        .map(|(said, _)| RunKey { tenant: key.tenant.clone(), run: said.run.clone() })
        .collect();
    let mut runs = deps.fleet.load_runs(lost).await?.into_iter();
    let heard = said.iter().zip(pulses).map(|(said, pulse)| match pulse {
        SeatPulse::Held { until, pause } => {
            HeartbeatReply::Held { until, paused: pause == PauseState::Paused }
        }
        SeatPulse::Lost => lost_reply(runs.next().flatten(), &key.device, said),
    });
    Ok(heard.collect())
}

/// Records progress alone: `false` where the device holds no claim (any more).
pub(crate) async fn record_progress(
    deps: &DeviceDeps,
    key: &DeviceKey,
    said: &HeartbeatRun,
) -> Result<bool, RequestRefusal> {
    let pulses = deps.fleet.record_beats(vec![beat_of(key, said)]).await?;
    Ok(pulses.iter().any(|pulse| matches!(pulse, SeatPulse::Held { .. })))
}

fn beat_of(key: &DeviceKey, said: &HeartbeatRun) -> SeatHeartbeat {
    SeatHeartbeat {
        run: RunKey { tenant: key.tenant.clone(), run: said.run.clone() },
        seat: said.seat,
        device: key.device.clone(),
        token: said.token,
        progress: said.progress.clone(),
    }
}

fn lost_reply(stored: Option<StoredRun>, device: &DeviceId, said: &HeartbeatRun) -> HeartbeatReply {
    let run = stored.map(|stored| stored.run);
    let Some(seat) = run.as_ref().and_then(|run| run.seat(said.seat)) else {
        return HeartbeatReply::Lost { status: None, holder: None };
    };
    let status = seat.status();
    match seat.current_holding() {
        Some(held) if held.device == *device && held.token == said.token => HeartbeatReply::Asked,
        Some(held) => {
            let holder = CurrentSeatHolder { device: held.device.clone(), since: held.assigned_at, status };
            HeartbeatReply::Lost { status: Some(status), holder: Some(holder) }
        }
        None => HeartbeatReply::Lost { status: Some(status), holder: None },
    }
}

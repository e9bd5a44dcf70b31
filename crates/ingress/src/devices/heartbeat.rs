//! Device heartbeats: a device reports that it is alive and learns for each of its runs whether it still
//! holds it.

use millstream_devices::claim::{
    CurrentSeatHolder, DeviceCandidate, DeviceReport, SeatProgress, SeatStatus, SeatToken,
};
use millstream_model::id::{DeviceId, DeviceKey, RunId, RunKey};
use millstream_model::status::PauseState;
use millstream_model::time::Timestamp;
use millstream_store::run_store::{SeatHeartbeat, SeatPulse, StoredRun};

use crate::auth::TenantCaller;
use crate::http::problem::ApiProblem;
use crate::state::IngressState;

/// The key of a path; devices of other tenants are not found.
pub(crate) fn parse_device_key(caller: &TenantCaller, text: &str) -> Result<DeviceKey, ApiProblem> {
    let device = DeviceId::parse(text).map_err(|_| ApiProblem::not_found("device", text))?;
    caller.require_device(&device)?;
    Ok(DeviceKey { tenant: caller.tenant.clone(), device })
}

pub(crate) async fn find_device(door: &IngressState, key: &DeviceKey) -> Result<DeviceCandidate, ApiProblem> {
    let found = door.fleet.find_device(key.clone()).await?;
    found.ok_or_else(|| ApiProblem::not_found("device", &key.device))
}

/// One run in a heartbeat, as the device reports it.
#[derive(Debug)]
pub(crate) struct HeartbeatRun {
    pub(crate) run: RunId,
    pub(crate) seat: u16,
    pub(crate) token: SeatToken,
    pub(crate) progress: Option<SeatProgress>,
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

pub(crate) async fn record_heartbeat(
    door: &IngressState,
    key: &DeviceKey,
    device: DeviceReport,
    said: &[HeartbeatRun],
) -> Result<Vec<HeartbeatReply>, ApiProblem> {
    door.hear_device(&key.tenant, device).await?;
    let beats: Vec<SeatHeartbeat> = said.iter().map(|said| beat_of(key, said)).collect();
    let pulses = door.fleet.record_beats(beats).await?;
    let lost: Vec<RunKey> = said
        .iter()
        .zip(&pulses)
        .filter(|(_, pulse)| matches!(pulse, SeatPulse::Lost))
        .map(|(said, _)| RunKey { tenant: key.tenant.clone(), run: said.run.clone() })
        .collect();
    let mut runs = door.fleet.load_runs(lost).await?.into_iter();
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
    door: &IngressState,
    key: &DeviceKey,
    said: &HeartbeatRun,
) -> Result<bool, ApiProblem> {
    let pulses = door.fleet.record_beats(vec![beat_of(key, said)]).await?;
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

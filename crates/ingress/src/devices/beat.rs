//! Device heartbeats: a device reports that it is alive and learns for each of its runs whether it still
//! holds it.

use millstream_core::claim::{Candidate, Device, Holder, Progress, Status, Token};
use millstream_core::id::{DeviceId, DeviceKey, RunId, RunKey};
use millstream_core::status::PauseState;
use millstream_core::time::Timestamp;
use millstream_store::run_store::{SeatBeat, SeatPulse, StoredRun};

use crate::auth::Caller;
use crate::door::Door;
use crate::http::problem::Problem;

/// The key of a path; devices of other tenants are not found.
pub(crate) fn key_of(caller: &Caller, text: &str) -> Result<DeviceKey, Problem> {
    let device = DeviceId::parse(text).map_err(|_| Problem::not_found("device", text))?;
    caller.require_device(&device)?;
    Ok(DeviceKey { tenant: caller.tenant.clone(), device })
}

pub(crate) async fn find(door: &Door, key: &DeviceKey) -> Result<Candidate, Problem> {
    let found = door.fleet.device(key.clone()).await?;
    found.ok_or_else(|| Problem::not_found("device", &key.device))
}

/// One run in a heartbeat, as the device reports it.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) run: RunId,
    pub(crate) seat: u16,
    pub(crate) token: Token,
    pub(crate) progress: Option<Progress>,
}

/// The reply for one run.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The claim holds; the next heartbeat is due by `until`.
    Held { until: Timestamp, paused: bool },
    /// The device is assigned this run and has not accepted it.
    Asked,
    /// The device does not hold it any more.
    Lost { status: Option<Status>, holder: Option<Holder> },
}

pub(crate) async fn heartbeat(
    door: &Door,
    key: &DeviceKey,
    device: Device,
    said: &[Said],
) -> Result<Vec<Heard>, Problem> {
    door.hear_device(&key.tenant, device).await?;
    let beats: Vec<SeatBeat> = said.iter().map(|said| beat_of(key, said)).collect();
    let pulses = door.fleet.beat(beats).await?;
    let lost: Vec<RunKey> = said
        .iter()
        .zip(&pulses)
        .filter(|(_, pulse)| matches!(pulse, SeatPulse::Lost))
        .map(|(said, _)| RunKey { tenant: key.tenant.clone(), run: said.run.clone() })
        .collect();
    let mut runs = door.fleet.runs(lost).await?.into_iter();
    let heard = said.iter().zip(pulses).map(|(said, pulse)| match pulse {
        SeatPulse::Held { until, pause } => Heard::Held { until, paused: pause == PauseState::Paused },
        SeatPulse::Lost => without_claim(runs.next().flatten(), &key.device, said),
    });
    Ok(heard.collect())
}

/// Records progress alone: `false` where the device holds no claim (any more).
pub(crate) async fn progress(door: &Door, key: &DeviceKey, said: &Said) -> Result<bool, Problem> {
    let pulses = door.fleet.beat(vec![beat_of(key, said)]).await?;
    Ok(pulses.iter().any(|pulse| matches!(pulse, SeatPulse::Held { .. })))
}

fn beat_of(key: &DeviceKey, said: &Said) -> SeatBeat {
    SeatBeat {
        run: RunKey { tenant: key.tenant.clone(), run: said.run.clone() },
        seat: said.seat,
        device: key.device.clone(),
        token: said.token,
        progress: said.progress.clone(),
    }
}

fn without_claim(stored: Option<StoredRun>, device: &DeviceId, said: &Said) -> Heard {
    let run = stored.map(|stored| stored.run);
    let Some(seat) = run.as_ref().and_then(|run| run.seat(said.seat)) else {
        return Heard::Lost { status: None, holder: None };
    };
    let status = seat.status();
    match seat.held() {
        Some(held) if held.device == *device && held.token == said.token => Heard::Asked,
        Some(held) => {
            let holder = Holder { device: held.device.clone(), since: held.assigned_at, status };
            Heard::Lost { status: Some(status), holder: Some(holder) }
        }
        None => Heard::Lost { status: Some(status), holder: None },
    }
}

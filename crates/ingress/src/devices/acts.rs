//! Acts of devices on runs, for every transport: a device sends an act with its seat and token, and gets
//! the status of the seat.

use millstream_devices::claim::{
    DeviceAction, RunInput, RunRecord, SeatAct, SeatDue, SeatProgress, SeatStatus, SeatToken, next_due,
};
use millstream_model::id::{DeviceId, DeviceKey, RunId, RunKey};
use millstream_model::time::Timestamp;
use millstream_store::run_service::RunOperation;

use super::DeviceDeps;
use super::heartbeat::{self, HeartbeatRun};
use super::runs;
use crate::refusal::RequestRefusal;

/// Length limit of the note of a progress report, in characters.
pub(crate) const MAX_NOTE: usize = 1_000;

/// The actor of a request: device, seat and token.
#[derive(Debug)]
pub(crate) struct DeviceActor {
    pub(crate) device: DeviceId,
    pub(crate) seat: Option<u16>,
    pub(crate) token: SeatToken,
}

#[derive(Debug)]
pub(crate) enum DeviceActRequest {
    /// An act on an assignment that the device holds.
    Do(DeviceAction),
    /// Claims a free seat.
    Claim,
    /// Claims a seat that the device was assigned before it lost its connection.
    OfflineClaim,
}

/// Status of a seat.
#[derive(Debug)]
pub(crate) struct SeatStanding {
    pub(crate) run_id: RunId,
    pub(crate) seat: u16,
    pub(crate) status: SeatStatus,
    /// Status of the run.
    pub(crate) run_status: SeatStatus,
    pub(crate) paused: bool,
    /// The device's token, if it holds the seat.
    pub(crate) token: Option<SeatToken>,
    /// The next step that is due, and its deadline.
    pub(crate) due: Option<SeatDeadline>,
}

#[derive(Debug)]
pub(crate) struct SeatDeadline {
    pub(crate) at: Timestamp,
    pub(crate) what: SeatDue,
}

pub(crate) async fn act_on_run(
    deps: &DeviceDeps,
    key: RunKey,
    who: DeviceActor,
    deed: DeviceActRequest,
) -> Result<SeatStanding, RequestRefusal> {
    let DeviceActor { device, seat, token } = who;
    let act = || SeatAct { device: device.clone(), seat: seat.unwrap_or(0), token };
    let ask = match deed {
        DeviceActRequest::OfflineClaim => RunOperation::Input(RunInput::OfflineClaim(act())),
        DeviceActRequest::Do(DeviceAction::Progress(progress))
            if record_progress(deps, &key, &act(), &progress).await? =>
        {
            let stored = runs::find_run(deps, &key).await?;
            return Ok(standing_of_seat(key.run, &stored.run, &device, seat.unwrap_or(0)));
        }
        DeviceActRequest::Do(doing) => RunOperation::Input(RunInput::Act(act(), doing)),
        DeviceActRequest::Claim => RunOperation::Take { device: device.clone(), seat },
    };
    let run = runs::apply_to_run(deps, &key, &ask, None).await?;
    let number = match seat {
        Some(seat) => seat,
        None => run.seat_of_device(&device).unwrap_or(0),
    };
    Ok(standing_of_seat(key.run, &run, &device, number))
}

/// Writes progress of a claim beside the run, which is cheap. `false` where there is no such claim: the run
/// then states the reason.
async fn record_progress(
    deps: &DeviceDeps,
    key: &RunKey,
    act: &SeatAct,
    progress: &SeatProgress,
) -> Result<bool, RequestRefusal> {
    let device = DeviceKey { tenant: key.tenant.clone(), device: act.device.clone() };
    let said = HeartbeatRun {
        run: key.run.clone(),
        seat: act.seat,
        token: act.token,
        progress: Some(progress.clone()),
    };
    heartbeat::record_progress(deps, &device, &said).await
}

fn standing_of_seat(run_id: RunId, run: &RunRecord, device: &DeviceId, number: u16) -> SeatStanding {
    let seat = run.seat(number);
    let held = seat.and_then(|seat| seat.current_holding()).filter(|held| held.device == *device);
    let next = next_due(run, number).filter(|_| held.is_some());
    SeatStanding {
        run_id,
        seat: number,
        status: seat.map_or(SeatStatus::Failed, |seat| seat.status()),
        run_status: run.status(),
        paused: run.is_paused(),
        token: held.map(|held| held.token),
        due: next.map(|(at, what)| SeatDeadline { at, what }),
    }
}

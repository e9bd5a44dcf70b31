//! Acts of devices on runs, for every transport: a device sends an act with its seat and token, and gets
//! the status of the seat.

use millstream_core::claim::{Act, Doing, Due, Input, Progress, Run, Status, Token, due};
use millstream_core::id::{DeviceId, DeviceKey, RunId, RunKey};
use millstream_core::time::Timestamp;
use millstream_store::running::Ask;
use serde::Serialize;

use super::beat::{self, Said};
use super::runs;
use crate::door::Door;
use crate::http::problem::Problem;

/// The actor of a request: device, seat and token.
#[derive(Debug)]
pub(crate) struct Who {
    pub(crate) device: DeviceId,
    pub(crate) seat: Option<u16>,
    pub(crate) token: Token,
}

#[derive(Debug)]
pub(crate) enum Deed {
    /// An act on an assignment that the device holds.
    Do(Doing),
    /// Claims a free seat.
    Claim,
    /// Claims a seat that the device was assigned before it lost its connection.
    OfflineClaim,
}

/// Status of a seat.
#[derive(Debug, Serialize)]
pub(crate) struct Stands {
    pub(crate) run_id: RunId,
    pub(crate) seat: u16,
    pub(crate) status: Status,
    /// Status of the run.
    pub(crate) run_status: Status,
    pub(crate) paused: bool,
    /// The device's token, if it holds the seat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<Token>,
    /// The next step that is due, and its deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<Next>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Next {
    pub(crate) at: Timestamp,
    pub(crate) what: Due,
}

pub(crate) async fn act(door: &Door, key: RunKey, who: Who, deed: Deed) -> Result<Stands, Problem> {
    let Who { device, seat, token } = who;
    let act = || Act { device: device.clone(), seat: seat.unwrap_or(0), token };
    let ask = match deed {
        Deed::OfflineClaim => Ask::Input(Input::OfflineClaim(act())),
        Deed::Do(Doing::Progress(progress)) if hear(door, &key, &act(), &progress).await? => {
            let stored = runs::find(door, &key).await?;
            return Ok(stands(key.run, &stored.run, &device, seat.unwrap_or(0)));
        }
        Deed::Do(doing) => Ask::Input(Input::Act(act(), doing)),
        Deed::Claim => Ask::Take { device: device.clone(), seat },
    };
    let run = runs::act(door, &key, &ask, None).await?;
    let number = match seat {
        Some(seat) => seat,
        None => run.seat_of(&device).unwrap_or(0),
    };
    Ok(stands(key.run, &run, &device, number))
}

/// Writes progress of a claim beside the run, which is cheap. `false` where there is no such claim: the run
/// then states the reason.
async fn hear(door: &Door, key: &RunKey, act: &Act, progress: &Progress) -> Result<bool, Problem> {
    let device = DeviceKey { tenant: key.tenant.clone(), device: act.device.clone() };
    let said =
        Said { run: key.run.clone(), seat: act.seat, token: act.token, progress: Some(progress.clone()) };
    beat::progress(door, &device, &said).await
}

fn stands(run_id: RunId, run: &Run, device: &DeviceId, number: u16) -> Stands {
    let seat = run.seat(number);
    let held = seat.and_then(|seat| seat.held()).filter(|held| held.device == *device);
    let next = due(run, number).filter(|_| held.is_some());
    Stands {
        run_id,
        seat: number,
        status: seat.map_or(Status::Failed, |seat| seat.status()),
        run_status: run.status(),
        paused: run.is_paused(),
        token: held.map(|held| held.token),
        due: next.map(|(at, what)| Next { at, what }),
    }
}

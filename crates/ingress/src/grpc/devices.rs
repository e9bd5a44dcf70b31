//! `DeviceService`: devices register, send heartbeats, watch their assignments, and act on runs.

use std::sync::Arc;

use futures::stream::BoxStream;
use millstream_core::claim::Progress;
use millstream_core::id::{Name, RunId};
use millstream_core::problem::Problem as Fault;
use millstream_rpc::length::time_out;
use millstream_rpc::proto::device_service_server::DeviceService;
use millstream_rpc::proto::{
    ActOnRunRequest, ActOnRunResponse, HeartbeatDeviceRequest, HeartbeatDeviceResponse,
    RegisterDeviceRequest, RegisterDeviceResponse, RunBeat as BeatIn, RunHeard, RunProgress, SeatHolder,
    WatchAssignmentsRequest, WatchAssignmentsResponse,
};
use tonic::{Request, Response, Status};

use super::call::begin;
use super::status::status;
use super::{assignments, run_acts};
use crate::auth::Caller;
use crate::devices::beat::{self, Heard, Said};
use crate::devices::{acting, runs};
use crate::door::Door;
use crate::http::devices::heartbeat::{Beat, RunBeat, hear};
use crate::http::devices::views::NewDevice;
use crate::http::problem::{HolderOut, Problem};

pub(super) struct Devices(pub(super) Arc<Door>);

#[tonic::async_trait]
impl DeviceService for Devices {
    async fn register_device(
        &self,
        request: Request<RegisterDeviceRequest>,
    ) -> Result<Response<RegisterDeviceResponse>, Status> {
        let call = begin(&request)?;
        let answer = register(&self.0, &call.caller, request.into_inner()).await;
        answer.map(Response::new).map_err(status)
    }

    async fn heartbeat_device(
        &self,
        request: Request<HeartbeatDeviceRequest>,
    ) -> Result<Response<HeartbeatDeviceResponse>, Status> {
        let call = begin(&request)?;
        let answer = heartbeat(&self.0, &call.caller, request.into_inner()).await;
        answer.map(Response::new).map_err(status)
    }

    type WatchAssignmentsStream = BoxStream<'static, Result<WatchAssignmentsResponse, Status>>;

    async fn watch_assignments(
        &self,
        request: Request<WatchAssignmentsRequest>,
    ) -> Result<Response<Self::WatchAssignmentsStream>, Status> {
        let call = begin(&request)?;
        let WatchAssignmentsRequest { device_id, seen_mark } = request.into_inner();
        let device = beat::key_of(&call.caller, &device_id).map_err(status)?;
        let seen = Some(seen_mark).filter(|mark| !mark.is_empty());
        assignments::lists(self.0.clone(), device, seen).await.map(Response::new)
    }

    async fn act_on_run(
        &self,
        request: Request<ActOnRunRequest>,
    ) -> Result<Response<ActOnRunResponse>, Status> {
        let call = begin(&request)?;
        let given = request.into_inner();
        let key = runs::key_of(&call.caller, &given.run_id).map_err(status)?;
        let (who, deed) = run_acts::read(given).map_err(|faults| status(Problem::invalid(faults)))?;
        call.caller.require_device(&who.device).map_err(status)?;
        let stands = acting::act(&self.0, key, who, deed).await.map_err(status)?;
        Ok(Response::new(run_acts::shown(stands)))
    }
}

async fn register(
    door: &Door,
    caller: &Caller,
    given: RegisterDeviceRequest,
) -> Result<RegisterDeviceResponse, Problem> {
    let key = beat::key_of(caller, &given.device_id)?;
    let mut faults = Vec::new();
    let capabilities = given.capabilities.iter().enumerate().filter_map(|(at, text)| {
        let name = Name::parse(text);
        name.map_err(|error| faults.push(Fault::new(format!("capabilities[{at}]"), error.to_string()))).ok()
    });
    let device = NewDevice {
        capabilities: capabilities.collect(),
        capability: given.capability,
        capacity: given.capacity,
        load: given.load,
        quality: given.quality.unwrap_or(1.0),
        battery: given.battery.map(percent),
        on_battery: given.on_battery,
        coordinator: given.coordinator,
    };
    let device = match device.device(key.device.clone(), door.clock.now()) {
        Ok(device) if faults.is_empty() => device,
        Ok(_) => return Err(Problem::invalid(faults)),
        Err(more) => return Err(Problem::invalid([faults, more].concat())),
    };
    door.hear_device(&caller.tenant, device).await?;
    let known = beat::find(door, &key).await?;
    Ok(RegisterDeviceResponse { paused: known.device.paused, open: known.open })
}

/// A value beyond a byte is beyond 100 % as well; the percentage check reports it.
fn percent(given: u32) -> u8 {
    u8::try_from(given).unwrap_or(u8::MAX)
}

async fn heartbeat(
    door: &Door,
    caller: &Caller,
    given: HeartbeatDeviceRequest,
) -> Result<HeartbeatDeviceResponse, Problem> {
    let key = beat::key_of(caller, &given.device_id)?;
    let mut faults = Vec::new();
    let runs = given.runs.into_iter().enumerate().filter_map(|(at, run)| {
        let read = run_beat(run);
        read.map_err(|fault| faults.push(Fault::new(format!("runs[{at}].{}", fault.path), fault.message)))
            .ok()
    });
    let beat = Beat {
        load: given.load,
        quality: given.quality,
        battery: given.battery.map(percent),
        on_battery: given.on_battery,
        runs: runs.collect(),
    };
    if !faults.is_empty() {
        return Err(Problem::invalid(faults));
    }
    let heard = hear(door, &key, beat).await?;
    Ok(HeartbeatDeviceResponse { runs: heard.into_iter().map(told).collect() })
}

fn run_beat(given: BeatIn) -> Result<RunBeat, Fault> {
    let run_id = RunId::parse(&given.run_id).map_err(|error| Fault::new("run_id", error.to_string()))?;
    let seat = u16::try_from(given.seat).map_err(|_| Fault::new("seat", "is not the number of a seat"))?;
    Ok(RunBeat { run_id, seat, token: given.token, progress: given.progress.map(progress_in) })
}

pub(super) fn progress_in(RunProgress { step, total, note }: RunProgress) -> Progress {
    Progress { step, total, note: Some(note).filter(|note| !note.is_empty()) }
}

fn told((said, heard): (Said, Heard)) -> RunHeard {
    let Said { run, seat, token, progress: _ } = said;
    let one = RunHeard {
        run_id: run.to_string(),
        seat: seat.into(),
        token: token.0,
        yours: true,
        ..RunHeard::default()
    };
    match heard {
        Heard::Held { until, paused } => RunHeard { until: Some(time_out(until)), paused, ..one },
        Heard::Asked => one,
        Heard::Lost { status: _, holder } => {
            let holder = holder.map(HolderOut::from).map(|holder| SeatHolder {
                device_id: holder.device.to_string(),
                since: Some(time_out(holder.since)),
                status: holder.status.to_string(),
            });
            RunHeard { yours: false, holder, ..one }
        }
    }
}

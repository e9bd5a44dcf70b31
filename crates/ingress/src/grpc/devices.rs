//! `DeviceService`: devices register, send heartbeats, watch their assignments, and act on runs.

use std::sync::Arc;

use futures::stream::BoxStream;
use millstream_devices::claim::{SeatProgress, SeatToken};
use millstream_model::id::{Name, RunId};
use millstream_model::problem::ValidationProblem as Fault;
use millstream_rpc::length::time_out;
use millstream_rpc::proto::device_service_server::DeviceService;
use millstream_rpc::proto::{
    ActOnRunRequest, ActOnRunResponse, HeartbeatDeviceRequest, HeartbeatDeviceResponse,
    RegisterDeviceRequest, RegisterDeviceResponse, RunBeat as BeatIn, RunHeard, RunProgress, SeatHolder,
    WatchAssignmentsRequest, WatchAssignmentsResponse,
};
use tonic::{Request, Response, Status};

use super::call::begin_call;
use super::status::status_of_refusal;
use super::{assignments, run_acts};
use crate::auth::TenantCaller;
use crate::devices::heartbeat::{self, DeviceReadings, HeartbeatReply, HeartbeatRun};
use crate::devices::registration::{self, DeviceRegistration};
use crate::devices::{acts, runs};
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(super) struct GrpcDeviceService(pub(super) Arc<IngressState>);

#[tonic::async_trait]
impl DeviceService for GrpcDeviceService {
    async fn register_device(
        &self,
        request: Request<RegisterDeviceRequest>,
    ) -> Result<Response<RegisterDeviceResponse>, Status> {
        let call = begin_call(&request)?;
        let answer = register_device(&self.0, &call.caller, request.into_inner()).await;
        answer.map(Response::new).map_err(status_of_refusal)
    }

    async fn heartbeat_device(
        &self,
        request: Request<HeartbeatDeviceRequest>,
    ) -> Result<Response<HeartbeatDeviceResponse>, Status> {
        let call = begin_call(&request)?;
        let answer = heartbeat_device(&self.0, &call.caller, request.into_inner()).await;
        answer.map(Response::new).map_err(status_of_refusal)
    }

    type WatchAssignmentsStream = BoxStream<'static, Result<WatchAssignmentsResponse, Status>>;

    async fn watch_assignments(
        &self,
        request: Request<WatchAssignmentsRequest>,
    ) -> Result<Response<Self::WatchAssignmentsStream>, Status> {
        let call = begin_call(&request)?;
        let WatchAssignmentsRequest { device_id, if_version } = request.into_inner();
        let device = heartbeat::parse_device_key(&call.caller, &device_id).map_err(status_of_refusal)?;
        let if_version = Some(if_version).filter(|version| !version.is_empty());
        assignments::watch_lists(self.0.clone(), device, if_version).await.map(Response::new)
    }

    async fn act_on_run(
        &self,
        request: Request<ActOnRunRequest>,
    ) -> Result<Response<ActOnRunResponse>, Status> {
        let call = begin_call(&request)?;
        let given = request.into_inner();
        let key = runs::parse_run_key(&call.caller, &given.run_id).map_err(status_of_refusal)?;
        let (who, deed) = run_acts::decode_act(given)
            .map_err(|faults| status_of_refusal(RequestRefusal::invalid(faults)))?;
        call.caller.require_device(&who.device).map_err(status_of_refusal)?;
        let stands = acts::act_on_run(&self.0.devices, key, who, deed).await.map_err(status_of_refusal)?;
        Ok(Response::new(run_acts::encode_standing(stands)))
    }
}

async fn register_device(
    door: &IngressState,
    caller: &TenantCaller,
    given: RegisterDeviceRequest,
) -> Result<RegisterDeviceResponse, RequestRefusal> {
    let key = heartbeat::parse_device_key(caller, &given.device_id)?;
    let mut faults = Vec::new();
    let capabilities = given.capabilities.iter().enumerate().filter_map(|(at, text)| {
        let name = Name::parse(text);
        name.map_err(|error| faults.push(Fault::new(format!("capabilities[{at}]"), error.to_string()))).ok()
    });
    let device = DeviceRegistration {
        capabilities: capabilities.collect(),
        capability: given.capability,
        capacity: given.capacity,
        load: given.load,
        quality: given.quality.unwrap_or(1.0),
        battery: given.battery.map(clamp_percent),
        on_battery: given.on_battery,
        coordinator: given.coordinator,
    };
    let device = match device.into_device(key.device.clone(), door.clock.now()) {
        Ok(device) if faults.is_empty() => device,
        Ok(_) => return Err(RequestRefusal::invalid(faults)),
        Err(more) => return Err(RequestRefusal::invalid([faults, more].concat())),
    };
    registration::register_device(&door.devices, &caller.tenant, device).await?;
    let known = heartbeat::find_device(&door.devices, &key).await?;
    Ok(RegisterDeviceResponse { paused: known.device.paused, open: known.open })
}

/// A value beyond a byte is beyond 100 % as well; the percentage check reports it.
fn clamp_percent(given: u32) -> u8 {
    u8::try_from(given).unwrap_or(u8::MAX)
}

async fn heartbeat_device(
    door: &IngressState,
    caller: &TenantCaller,
    given: HeartbeatDeviceRequest,
) -> Result<HeartbeatDeviceResponse, RequestRefusal> {
    let key = heartbeat::parse_device_key(caller, &given.device_id)?;
    let mut faults = Vec::new();
    let runs = given.runs.into_iter().enumerate().filter_map(|(at, run)| {
        let read = decode_run_beat(run);
        read.map_err(|fault| faults.push(Fault::new(format!("runs[{at}].{}", fault.path), fault.message)))
            .ok()
    });
    let beat = DeviceReadings {
        load: given.load,
        quality: given.quality,
        battery: given.battery.map(clamp_percent),
        on_battery: given.on_battery,
        runs: runs.collect(),
    };
    if !faults.is_empty() {
        return Err(RequestRefusal::invalid(faults));
    }
    let heard = heartbeat::record_heartbeat(&door.devices, &key, beat).await?;
    Ok(HeartbeatDeviceResponse { runs: heard.into_iter().map(encode_reply).collect() })
}

fn decode_run_beat(given: BeatIn) -> Result<HeartbeatRun, Fault> {
    let run = RunId::parse(&given.run_id).map_err(|error| Fault::new("run_id", error.to_string()))?;
    let seat = u16::try_from(given.seat).map_err(|_| Fault::new("seat", "is not the number of a seat"))?;
    Ok(HeartbeatRun {
        run,
        seat,
        token: SeatToken(given.token),
        progress: given.progress.map(decode_progress),
    })
}

pub(super) fn decode_progress(RunProgress { step, total, note }: RunProgress) -> SeatProgress {
    SeatProgress { step, total, note: Some(note).filter(|note| !note.is_empty()) }
}

fn encode_reply((said, heard): (HeartbeatRun, HeartbeatReply)) -> RunHeard {
    let HeartbeatRun { run, seat, token, progress: _ } = said;
    let one = RunHeard {
        run_id: run.to_string(),
        seat: seat.into(),
        token: token.0,
        held: true,
        ..RunHeard::default()
    };
    match heard {
        HeartbeatReply::Held { until, paused } => RunHeard { until: Some(time_out(until)), paused, ..one },
        HeartbeatReply::Asked => one,
        HeartbeatReply::Lost { status: _, holder } => {
            let holder = holder.map(|holder| SeatHolder {
                device_id: holder.device.to_string(),
                since: Some(time_out(holder.since)),
                status: holder.status.to_string(),
            });
            RunHeard { held: false, holder, ..one }
        }
    }
}

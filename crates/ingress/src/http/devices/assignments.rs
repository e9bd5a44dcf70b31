//! The seats that a device holds or is offered, with long polling for a change of the list.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use millstream_devices::claim::{SeatDue, SeatProgress, SeatStatus, SeatToken, next_due};
use millstream_model::id::{Name, RunId};
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use serde::Serialize;

use crate::auth::TenantCaller;
use crate::devices::assignments::{self, DeviceAssignment};
use crate::devices::heartbeat;
use crate::gate::RequestSlot;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::tasks::lease_request::LONGEST_WAIT;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/devices/{device_id}/assignments", "get_assignments", get_device_assignments)
            .summary("Seats that the device holds or is offered, highest priority first")
            .needs(Permission::ActAsDevice)
            .query(&[("wait", "WaitSeconds"), ("if_version", "AssignmentsVersion")])
            .answer(200, "Assignments", "The complete list; empty when the wait timed out")
            .problems(&[404]),
    ]
}

#[derive(Debug, Serialize)]
pub(super) struct DeviceAssignmentsOut {
    items: Vec<DeviceAssignmentOut>,
    /// Send it as `if_version` to wait for the next change.
    version: String,
}

#[derive(Debug, Serialize)]
struct DeviceAssignmentOut {
    run_id: RunId,
    seat: u16,
    token: SeatToken,
    status: SeatStatus,
    kind: Name,
    priority: i32,
    paused: bool,
    assigned_at: Timestamp,
    /// The next step and its deadline; when the deadline passes, the seat is reassigned to another device.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<SeatDeadlineOut>,
    /// The heartbeat interval, once the device has accepted.
    heartbeat_ms: u64,
    input: RawJson,
    /// The progress of the previous device.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<SeatProgress>,
}

#[derive(Debug, Serialize)]
pub(in crate::http) struct SeatDeadlineOut {
    pub(in crate::http) at: Timestamp,
    pub(in crate::http) what: SeatDue,
}

async fn get_device_assignments(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    slot: RequestSlot,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Json<DeviceAssignmentsOut>, RequestRefusal> {
    let wait = params.parse_param("wait", parse_wait_seconds).unwrap_or_default();
    let if_version = params.take_param("if_version");
    params.finish_params()?;
    let key = heartbeat::parse_device_key(&caller, &id)?;
    heartbeat::find_device(&door.devices, &key).await?;
    if !wait.is_zero() {
        // A waiting request holds no slot among the requests in flight.
        slot.give_back();
    }
    let all = assignments::wait_for_change(&door.devices, &key, if_version.as_deref(), wait).await?;
    let version = assignments::version_tag(&all);
    Ok(Json(DeviceAssignmentsOut::of(all, version)))
}

impl DeviceAssignmentsOut {
    pub(super) fn of(all: Vec<DeviceAssignment>, version: String) -> Self {
        Self { items: all.into_iter().filter_map(view_device_assignment).collect(), version }
    }
}

fn parse_wait_seconds(text: &str) -> Result<Duration, String> {
    let most = LONGEST_WAIT.as_secs();
    let given = text.parse().ok().filter(|seconds| *seconds <= most);
    given.map(Duration::from_secs).ok_or_else(|| format!("is not a number of seconds from 0 to {most}"))
}

fn view_device_assignment(
    DeviceAssignment { seat: of, run }: DeviceAssignment,
) -> Option<DeviceAssignmentOut> {
    let seat = run.seat(of.seat)?;
    Some(DeviceAssignmentOut {
        run_id: of.run.run,
        seat: of.seat,
        token: of.token,
        status: seat.status(),
        priority: run.priority,
        paused: run.is_paused(),
        assigned_at: of.assigned_at,
        due: next_due(&run, of.seat).map(|(at, what)| SeatDeadlineOut { at, what }),
        heartbeat_ms: u64::try_from(run.settings.heartbeat.as_millis()).unwrap_or(u64::MAX),
        progress: seat.progress.clone(),
        kind: run.kind,
        input: run.input,
    })
}

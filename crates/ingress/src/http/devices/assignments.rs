//! The seats that a device holds or is offered, with long polling for a change of the list.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use millstream_api::run_assignments::{RunAssignment, RunAssignments};
use millstream_devices::claim::next_due;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;

use crate::auth::TenantCaller;
use crate::devices::assignments::{self, DeviceAssignment};
use crate::devices::heartbeat;
use crate::gate::RequestSlot;
use crate::http::query::QueryParams;
use crate::http::route::Route;
use crate::http::runs::views::{run_due, run_progress};
use crate::http::runs::words::run_status;
use crate::refusal::RequestRefusal;
use crate::state::IngressState;
use crate::tasks::lease_request::LONGEST_WAIT;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/devices/{device_id}/assignments", "get_assignments", get_device_assignments)
            .summary("Seats that the device holds or is offered, highest priority first")
            .needs(Permission::ActAsDevice)
            .query(&[("wait", "WaitSeconds"), ("if_version", "AssignmentsVersion")])
            .returns::<RunAssignments>(200, "The complete list; empty when the wait timed out")
            .problems(&[404]),
    ]
}

async fn get_device_assignments(
    State(door): State<Arc<IngressState>>,
    caller: TenantCaller,
    slot: RequestSlot,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Json<RunAssignments<RawJson>>, RequestRefusal> {
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
    Ok(Json(run_assignments(all, version)))
}

pub(super) fn run_assignments(all: Vec<DeviceAssignment>, version: String) -> RunAssignments<RawJson> {
    RunAssignments { items: all.into_iter().filter_map(run_assignment).collect(), version }
}

fn parse_wait_seconds(text: &str) -> Result<Duration, String> {
    let most = LONGEST_WAIT.as_secs();
    let given = text.parse().ok().filter(|seconds| *seconds <= most);
    given.map(Duration::from_secs).ok_or_else(|| format!("is not a number of seconds from 0 to {most}"))
}

fn run_assignment(DeviceAssignment { seat: of, run }: DeviceAssignment) -> Option<RunAssignment<RawJson>> {
    let seat = run.seat(of.seat)?;
    Some(RunAssignment {
        run_id: of.run.run.to_string(),
        seat: of.seat,
        token: of.token.0,
        status: run_status(seat.status()),
        priority: run.priority,
        paused: run.is_paused(),
        assigned_at: of.assigned_at,
        due: next_due(&run, of.seat).map(run_due),
        heartbeat_ms: u64::try_from(run.settings.heartbeat.as_millis()).unwrap_or(u64::MAX),
        progress: seat.progress.clone().map(run_progress),
        kind: run.kind.to_string(),
        input: run.input,
    })
}

//! The seats that a device holds or is offered, with long polling for a change of the list.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use millstream_core::claim::{Due, Progress, Status, Token, due};
use millstream_core::id::{Name, RunId};
use millstream_core::permission::Permission;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use serde::Serialize;

use crate::auth::Caller;
use crate::devices::assignments::{self, Assignment};
use crate::devices::beat;
use crate::door::Door;
use crate::gate::Slot;
use crate::http::problem::Problem;
use crate::http::route::Route;
use crate::http::tasks::LONGEST_WAIT;
use crate::query::Params;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/devices/{device_id}/assignments", "get_assignments", read)
            .summary("Seats that the device holds or is offered, highest priority first")
            .needs(Permission::ActAsDevice)
            .query(&[("wait", "WaitSeconds"), ("seen", "AssignmentsMark")])
            .answer(200, "Assignments", "The complete list; empty when the wait timed out")
            .problems(&[404]),
    ]
}

#[derive(Debug, Serialize)]
pub(super) struct AssignmentsOut {
    items: Vec<AssignmentOut>,
    /// The version of the list: send it as `seen` to wait for the next change.
    mark: String,
}

#[derive(Debug, Serialize)]
struct AssignmentOut {
    run_id: RunId,
    seat: u16,
    token: Token,
    status: Status,
    kind: Name,
    priority: i32,
    paused: bool,
    assigned_at: Timestamp,
    /// The next step and its deadline; when the deadline passes, the seat is reassigned to another device.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<DueOut>,
    /// The heartbeat interval, once the device has accepted.
    heartbeat_ms: u64,
    input: RawJson,
    /// The progress of the previous device.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
}

#[derive(Debug, Serialize)]
pub(in crate::http) struct DueOut {
    pub(in crate::http) at: Timestamp,
    pub(in crate::http) what: Due,
}

async fn read(
    State(door): State<Arc<Door>>,
    caller: Caller,
    slot: Slot,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<AssignmentsOut>, Problem> {
    let wait = params.parsed("wait", seconds).unwrap_or_default();
    let seen = params.take("seen");
    params.finish()?;
    let key = beat::key_of(&caller, &id)?;
    beat::find(&door, &key).await?;
    if !wait.is_zero() {
        // A waiting request holds no slot among the requests in flight.
        slot.give_back();
    }
    let all = assignments::wait(&door, &key, seen.as_deref(), wait).await?;
    let mark = assignments::mark(&all);
    Ok(Json(AssignmentsOut::of(all, mark)))
}

impl AssignmentsOut {
    pub(super) fn of(all: Vec<Assignment>, mark: String) -> Self {
        Self { items: all.into_iter().filter_map(shown).collect(), mark }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let most = LONGEST_WAIT.as_secs();
    let given = text.parse().ok().filter(|seconds| *seconds <= most);
    given.map(Duration::from_secs).ok_or_else(|| format!("is not a number of seconds from 0 to {most}"))
}

fn shown(Assignment { seat: of, run }: Assignment) -> Option<AssignmentOut> {
    let seat = run.seat(of.seat)?;
    Some(AssignmentOut {
        run_id: of.run.run,
        seat: of.seat,
        token: of.token,
        status: seat.status(),
        priority: run.priority,
        paused: run.is_paused(),
        assigned_at: of.assigned_at,
        due: due(&run, of.seat).map(|(at, what)| DueOut { at, what }),
        heartbeat_ms: u64::try_from(run.settings.heartbeat.as_millis()).unwrap_or(u64::MAX),
        progress: seat.progress.clone(),
        kind: run.kind,
        input: run.input,
    })
}

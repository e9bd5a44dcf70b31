//! JSON view of a run.

use std::collections::BTreeSet;

use millstream_devices::claim::{
    FormerHolding, RunAssignMode, RunRecord, RunSeat, RunSettings, SeatFailure, SeatFailureKind,
    SeatLossReason, SeatProgress, SeatState, SeatStatus, SeatToken, next_due,
};
use millstream_model::id::{DeviceId, ExecutionId, Name, RunId, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::run_store::StoredRun;
use serde::Serialize;

use crate::http::devices::assignments::SeatDeadlineOut;

#[derive(Debug, Serialize)]
pub(super) struct RunOut {
    run_id: RunId,
    kind: Name,
    status: SeatStatus,
    paused: bool,
    priority: i32,
    preempt: bool,
    coordinator: bool,
    assign: RunAssignMode,
    requires: BTreeSet<Name>,
    prefer: BTreeSet<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_battery: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<DeviceId>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
    /// The action of an execution that waits for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<WaitingActionOut>,
    /// Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<RunSettings>,
    /// Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<RawJson>,
    seats: Vec<SeatOut>,
}

#[derive(Debug, Serialize)]
struct WaitingActionOut {
    execution_id: ExecutionId,
    seq: Seq,
    action: Name,
}

#[derive(Debug, Serialize)]
pub(super) struct SeatOut {
    seat: u16,
    status: SeatStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<DeviceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<SeatToken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    assigned_at: Option<Timestamp>,
    /// The next deadline of the seat, and its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<SeatDeadlineOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<SeatProgress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RunFailureOut>,
    reassignments: u32,
    /// Previous holders, in order. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Vec<PreviousHolderOut>>,
}

#[derive(Debug, Serialize)]
struct RunFailureOut {
    kind: SeatFailureKind,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<Name>,
}

#[derive(Debug, Serialize)]
struct PreviousHolderOut {
    device: DeviceId,
    token: SeatToken,
    assigned_at: Timestamp,
    ended_at: Timestamp,
    reason: SeatLossReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<SeatProgress>,
}

impl RunOut {
    /// The view in lists.
    pub(super) fn brief(stored: StoredRun) -> Self {
        Self::of(stored.key.run, stored.run, false)
    }

    pub(super) fn whole(id: RunId, run: RunRecord) -> Self {
        Self::of(id, run, true)
    }

    fn of(run_id: RunId, run: RunRecord, whole: bool) -> Self {
        let seats = run.numbered_seats().map(|(number, _)| SeatOut::of(&run, number, whole)).collect();
        Self {
            run_id,
            status: run.status(),
            paused: run.is_paused(),
            ended_at: run.ended_at(),
            kind: run.kind,
            priority: run.priority,
            preempt: run.preempt,
            coordinator: run.prefer_coordinator,
            assign: run.assign,
            requires: run.requires,
            prefer: run.prefer,
            min_battery: run.min_battery,
            created_by: run.created_by,
            created_at: run.created_at,
            waiting: run.waiting.map(|waiting| WaitingActionOut {
                execution_id: waiting.key.execution.execution,
                seq: waiting.key.seq,
                action: waiting.key.action,
            }),
            settings: whole.then_some(run.settings),
            input: whole.then_some(run.input),
            seats,
        }
    }
}

impl SeatOut {
    pub(super) fn of(run: &RunRecord, number: u16, whole: bool) -> Self {
        let seat = run.seat(number);
        let held = seat.and_then(|seat| match &seat.state {
            SeatState::Completed { held, .. } => Some(held),
            SeatState::Failed { last, .. } => last.as_ref(),
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Claimed { .. }
            | SeatState::Processing { .. }
            | SeatState::Reassigning { .. } => seat.current_holding(),
        });
        let (output, error) = match seat.map(|seat| &seat.state) {
            Some(SeatState::Completed { output, .. }) => (Some(output.clone()), None),
            Some(SeatState::Failed { failure, .. }) => (None, Some(failure.clone())),
            Some(
                SeatState::Created
                | SeatState::Assigned { .. }
                | SeatState::Claimed { .. }
                | SeatState::Processing { .. }
                | SeatState::Reassigning { .. },
            )
            | None => (None, None),
        };
        let previous = seat.map(|seat| seat.previous.iter().cloned().map(PreviousHolderOut::from).collect());
        Self {
            seat: number,
            status: seat.map_or(SeatStatus::Failed, RunSeat::status),
            device: held.map(|held| held.device.clone()),
            token: held.map(|held| held.token),
            assigned_at: held.map(|held| held.assigned_at),
            due: next_due(run, number).map(|(at, what)| SeatDeadlineOut { at, what }),
            progress: seat.and_then(|seat| seat.progress.clone()),
            output: output.filter(|_| whole),
            error: error.map(|SeatFailure { kind, message, class }| RunFailureOut { kind, message, class }),
            reassignments: seat.map_or(0, |seat| seat.reassignments),
            previous: previous.filter(|_| whole),
        }
    }
}

impl From<FormerHolding> for PreviousHolderOut {
    fn from(it: FormerHolding) -> Self {
        let FormerHolding { device, token, assigned_at, ended_at, reason, why, progress } = it;
        Self { device, token, assigned_at, ended_at, reason, why, progress }
    }
}

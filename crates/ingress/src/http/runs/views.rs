//! JSON views of a run, its seats and its log.

use std::collections::BTreeSet;

use millstream_api::run_log::RunLogLine;
use millstream_api::run_settings::{RunBackoff, RunSettingsView};
use millstream_api::runs::{
    PastRunAssignment, RunDue, RunFailure, RunProgress, RunSeatSummary, RunSummary, SeatHolder,
    WaitingRunAction,
};
use millstream_devices::claim::{
    CurrentSeatHolder, FormerHolding, RunRecord, RunSeat, RunSettings, SeatBackoff, SeatDue, SeatFailure,
    SeatProgress, SeatState, SeatStatus, WaitingAction, next_due,
};
use millstream_model::id::{Name, RunId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::run_store::{RunEntry, StoredRun};

use super::words::{assignment_mode, due_action, failure_kind, log_word, loss_reason, run_status};

/// How much of a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunDetail {
    /// As in lists: without settings, input, outputs and earlier assignments.
    Brief,
    Whole,
}

pub(super) fn run_in_list(stored: StoredRun) -> RunSummary<RawJson> {
    run_summary(stored.key.run, stored.run, RunDetail::Brief)
}

pub(super) fn run_summary(run_id: RunId, run: RunRecord, detail: RunDetail) -> RunSummary<RawJson> {
    let is_whole = detail == RunDetail::Whole;
    RunSummary {
        run_id: run_id.to_string(),
        status: run_status(run.status()),
        paused: run.is_paused(),
        ended_at: run.ended_at(),
        seats: run_seats(&run, detail),
        kind: run.kind.to_string(),
        priority: run.priority,
        preempt: run.preempt,
        coordinator: run.prefer_coordinator,
        assign: assignment_mode(run.assign),
        requires: capability_names(&run.requires),
        prefer: capability_names(&run.prefer),
        min_battery: run.min_battery,
        created_by: run.created_by.map(|device| device.to_string()),
        created_at: run.created_at,
        waiting: run.waiting.map(waiting_action),
        settings: is_whole.then(|| run_settings(run.settings)),
        input: is_whole.then_some(run.input),
    }
}

fn capability_names(names: &BTreeSet<Name>) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

fn waiting_action(waiting: WaitingAction) -> WaitingRunAction {
    WaitingRunAction {
        execution_id: waiting.key.execution.execution.to_string(),
        seq: waiting.key.seq.0,
        action: waiting.key.action.to_string(),
    }
}

fn run_settings(settings: RunSettings) -> RunSettingsView {
    let SeatBackoff { first, max, rounds } = settings.backoff;
    RunSettingsView {
        assignment_timeout: settings.assignment_timeout,
        claim_timeout: settings.claim_timeout,
        heartbeat: settings.heartbeat,
        heartbeat_timeout: settings.heartbeat_timeout,
        reachable: settings.reachable,
        max_reassignments: settings.max_reassignments,
        backoff: RunBackoff { first, max, rounds },
    }
}

pub(super) fn run_seats(run: &RunRecord, detail: RunDetail) -> Vec<RunSeatSummary<RawJson>> {
    run.numbered_seats().map(|(number, _)| seat_summary(run, number, detail)).collect()
}

fn seat_summary(run: &RunRecord, number: u16, detail: RunDetail) -> RunSeatSummary<RawJson> {
    let is_whole = detail == RunDetail::Whole;
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
    let previous = seat.map(|seat| seat.previous.iter().cloned().map(past_assignment).collect());
    RunSeatSummary {
        seat: number,
        status: run_status(seat.map_or(SeatStatus::Failed, RunSeat::status)),
        device: held.map(|held| held.device.to_string()),
        token: held.map(|held| held.token.0),
        assigned_at: held.map(|held| held.assigned_at),
        due: next_due(run, number).map(run_due),
        progress: seat.and_then(|seat| seat.progress.clone()).map(run_progress),
        output: output.filter(|_| is_whole),
        error: error.map(run_failure),
        reassignments: seat.map_or(0, |seat| seat.reassignments),
        previous: previous.filter(|_| is_whole),
    }
}

pub(in crate::http) const fn run_due((at, what): (Timestamp, SeatDue)) -> RunDue {
    RunDue { at, what: due_action(what) }
}

pub(in crate::http) fn run_progress(SeatProgress { step, total, note }: SeatProgress) -> RunProgress {
    RunProgress { step, total, note }
}

fn run_failure(SeatFailure { kind, message, class }: SeatFailure) -> RunFailure {
    RunFailure { kind: failure_kind(kind), message, class: class.map(|class| class.to_string()) }
}

fn past_assignment(past: FormerHolding) -> PastRunAssignment {
    let FormerHolding { device, token, assigned_at, ended_at, reason, why, progress } = past;
    PastRunAssignment {
        device: device.to_string(),
        token: token.0,
        assigned_at,
        ended_at,
        reason: loss_reason(reason),
        why,
        progress: progress.map(run_progress),
    }
}

pub(in crate::http) fn seat_holder(
    CurrentSeatHolder { device, since, status }: CurrentSeatHolder,
) -> SeatHolder {
    SeatHolder { device: device.to_string(), since, status: run_status(status) }
}

pub(super) fn run_log_line(RunEntry { position, entry }: RunEntry) -> RunLogLine<RawJson> {
    RunLogLine {
        position,
        at: entry.at,
        seat: entry.seat,
        word: log_word(entry.word),
        from: entry.from.map(run_status),
        to: run_status(entry.to),
        device: entry.device.map(|device| device.to_string()),
        token: entry.token.map(|token| token.0),
        ended: entry.ended.map(loss_reason),
        why: entry.why,
        by: entry.by,
        detail: entry.detail,
    }
}

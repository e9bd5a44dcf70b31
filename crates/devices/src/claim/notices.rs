//! Notices of a run, sent to the outbound sinks: no device left, or failed.

use millstream_model::id::{ExecutionId, Name, RunId};
use millstream_model::notice::{Notice, NoticeKind};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use serde::Serialize;

use super::change::RunLogEntry;
use super::input_kind::RunInputKind;
use super::run::RunRecord;
use super::seat::{SeatFailure, SeatFailureKind, SeatState};
use super::status::SeatStatus;

#[derive(Serialize)]
struct RunNoticePayload<'a> {
    #[serde(rename = "type")]
    what: NoticeKind,
    run_id: &'a RunId,
    at: Timestamp,
    kind: &'a Name,
    reason: &'a str,
    /// The error class reported by the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a Name>,
    seat: u16,
    /// The execution that waits for it; the execution receives the outcome independently of this notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<&'a ExecutionId>,
}

/// The notices of a change, from the run after it and its new log entries. A run fails because of one seat:
/// the other seats cause no notice.
pub fn run_notices(id: &RunId, run: &RunRecord, log: &[RunLogEntry]) -> Vec<Notice> {
    let fails = |entry: &&RunLogEntry| {
        entry.to == SeatStatus::Failed
            && entry.from != Some(SeatStatus::Failed)
            && entry.word != RunInputKind::RunFailed
    };
    log.iter().filter(fails).filter_map(|entry| notice_of_entry(id, run, entry)).collect()
}

fn notice_of_entry(id: &RunId, run: &RunRecord, entry: &RunLogEntry) -> Option<Notice> {
    let seat = entry.seat?;
    let SeatFailure { kind, message, class } = failure_of_seat(run, seat)?;
    let what = match kind {
        SeatFailureKind::NobodyLeft => NoticeKind::RunNobodyLeft,
        SeatFailureKind::Error => NoticeKind::RunFailed,
        SeatFailureKind::Cancelled | SeatFailureKind::OtherSeat => return None,
    };
    let data = RunNoticePayload {
        what,
        run_id: id,
        at: entry.at,
        kind: &run.kind,
        reason: message,
        class: class.as_ref(),
        seat,
        execution_id: run.waiting.as_ref().map(|waiting| &waiting.key.execution.execution),
    };
    Some(Notice {
        kind: what,
        subject: id.as_str().to_owned(),
        at: entry.at,
        data: RawJson::from_value(&data),
    })
}

fn failure_of_seat(run: &RunRecord, seat: u16) -> Option<&SeatFailure> {
    match &run.seat(seat)?.state {
        SeatState::Failed { failure, .. } => Some(failure),
        SeatState::Created
        | SeatState::Assigned { .. }
        | SeatState::Claimed { .. }
        | SeatState::Processing { .. }
        | SeatState::Reassigning { .. }
        | SeatState::Completed { .. } => None,
    }
}

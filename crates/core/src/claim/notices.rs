//! Notices of a run, sent to the outbound sinks: no device left, or failed.

use serde::Serialize;

use super::change::Entry;
use super::row::Run;
use super::seat::{Failure, FailureKind, SeatState};
use super::status::Status;
use super::word::Word;
use crate::id::{ExecutionId, Name, RunId};
use crate::notice::{Kind, Notice};
use crate::raw::RawJson;
use crate::time::Timestamp;

#[derive(Serialize)]
struct Data<'a> {
    #[serde(rename = "type")]
    what: Kind,
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
pub fn notices(id: &RunId, run: &Run, log: &[Entry]) -> Vec<Notice> {
    let fails = |entry: &&Entry| {
        entry.to == Status::Failed && entry.from != Some(Status::Failed) && entry.word != Word::RunFailed
    };
    log.iter().filter(fails).filter_map(|entry| notice(id, run, entry)).collect()
}

fn notice(id: &RunId, run: &Run, entry: &Entry) -> Option<Notice> {
    let seat = entry.seat?;
    let Failure { kind, message, class } = failure(run, seat)?;
    let what = match kind {
        FailureKind::NobodyLeft => Kind::RunNobodyLeft,
        FailureKind::Error => Kind::RunFailed,
        FailureKind::Cancelled | FailureKind::OtherSeat => return None,
    };
    let data = Data {
        what,
        run_id: id,
        at: entry.at,
        kind: &run.kind,
        reason: message,
        class: class.as_ref(),
        seat,
        execution_id: run.waiting.as_ref().map(|waiting| &waiting.key.execution.execution),
    };
    Some(Notice { kind: what, subject: id.as_str().to_owned(), at: entry.at, data: RawJson::of(&data) })
}

fn failure(run: &Run, seat: u16) -> Option<&Failure> {
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

//! The outcome of an ended run, as delivered to the execution that waits for it.

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{DeviceId, Name};
use millstream_model::raw::RawJson;
use serde::Serialize;

use super::run::RunRecord;
use super::seat::{SeatFailure, SeatFailureKind, SeatState};
use super::status::SeatStatus;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunOutcome {
    /// `{device, output}`, and with several seats `{seats: [{device, output}, …]}` as well.
    Completed {
        result: RawJson,
    },
    Failed {
        error: ActionFailure,
    },
}

impl RunOutcome {
    /// `None` while the run is active, and if no execution waits for it.
    pub(super) fn from_run(run: &RunRecord) -> Option<Self> {
        run.waiting.as_ref()?;
        match run.status() {
            SeatStatus::Completed => Some(Self::Completed { result: run_result(run) }),
            SeatStatus::Failed => Some(Self::Failed { error: run_error(run) }),
            SeatStatus::Created
            | SeatStatus::AssigningToSelf
            | SeatStatus::AssigningToOther
            | SeatStatus::Assigned
            | SeatStatus::Claimed
            | SeatStatus::Processing
            | SeatStatus::Reassigning => None,
        }
    }

    /// The outcome as the end of an attempt of the waiting action. The devices have used up all attempts.
    pub fn to_attempt(self) -> AttemptOutcome {
        match self {
            Self::Completed { result } => AttemptOutcome::Success { result },
            Self::Failed { error } => AttemptOutcome::Permanent { error },
        }
    }
}

#[derive(Serialize)]
struct RunOutputs<'a> {
    #[serde(flatten)]
    first: Option<&'a SeatOutput<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    seats: &'a [SeatOutput<'a>],
}

#[derive(Serialize)]
struct SeatOutput<'a> {
    device: &'a DeviceId,
    output: &'a RawJson,
}

fn run_result(run: &RunRecord) -> RawJson {
    let outcomes: Vec<SeatOutput<'_>> = run
        .seats
        .iter()
        .filter_map(|seat| match &seat.state {
            SeatState::Completed { held, output, .. } => Some(SeatOutput { device: &held.device, output }),
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Claimed { .. }
            | SeatState::Processing { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Failed { .. } => None,
        })
        .collect();
    let seats = if outcomes.len() > 1 { &outcomes[..] } else { &[] };
    RawJson::from_value(&RunOutputs { first: outcomes.first(), seats })
}

/// The error of the seat that failed.
fn run_error(run: &RunRecord) -> ActionFailure {
    let failures = run.seats.iter().filter_map(|seat| match &seat.state {
        SeatState::Failed { failure, .. } => Some(failure),
        SeatState::Created
        | SeatState::Assigned { .. }
        | SeatState::Claimed { .. }
        | SeatState::Processing { .. }
        | SeatState::Reassigning { .. }
        | SeatState::Completed { .. } => None,
    });
    let cause = failures.min_by_key(|failure| failure.kind == SeatFailureKind::OtherSeat);
    let Some(SeatFailure { kind, message, class }) = cause else {
        return ActionFailure {
            class: ErrorClass::named(Name::reserved_name("device")),
            message: "the run has failed".to_owned(),
            status: None,
        };
    };
    let own = match kind {
        SeatFailureKind::Error | SeatFailureKind::OtherSeat => "device",
        SeatFailureKind::NobodyLeft => "nobody_left",
        SeatFailureKind::Cancelled => "cancelled",
    };
    let class = class.clone().unwrap_or_else(|| Name::reserved_name(own));
    ActionFailure { class: ErrorClass::named(class), message: message.clone(), status: None }
}

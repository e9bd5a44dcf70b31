//! The outcome of an ended run, as delivered to the execution that waits for it.

use serde::Serialize;

use super::row::Run;
use super::seat::{Failure, FailureKind, SeatState};
use super::status::Status;
use crate::action::{ActionError, Attempt};
use crate::error_class::ErrorClass;
use crate::id::{DeviceId, Name};
use crate::raw::RawJson;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// `{device, output}`, and with several seats `{seats: [{device, output}, …]}` as well.
    Completed {
        result: RawJson,
    },
    Failed {
        error: ActionError,
    },
}

impl Told {
    /// `None` while the run is active, and if no execution waits for it.
    pub(super) fn of(run: &Run) -> Option<Self> {
        run.waiting.as_ref()?;
        match run.status() {
            Status::Completed => Some(Self::Completed { result: result(run) }),
            Status::Failed => Some(Self::Failed { error: error(run) }),
            Status::Created
            | Status::AssigningToSelf
            | Status::AssigningToOther
            | Status::Assigned
            | Status::Claimed
            | Status::Processing
            | Status::Reassigning => None,
        }
    }

    /// For [`conclude`](crate::action::conclude). The devices have used up all attempts.
    pub fn attempt(self) -> Attempt {
        match self {
            Self::Completed { result } => Attempt::Success { result },
            Self::Failed { error } => Attempt::Permanent { error },
        }
    }
}

#[derive(Serialize)]
struct Outcome<'a> {
    #[serde(flatten)]
    first: Option<&'a SeatOutcome<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    seats: &'a [SeatOutcome<'a>],
}

#[derive(Serialize)]
struct SeatOutcome<'a> {
    device: &'a DeviceId,
    output: &'a RawJson,
}

fn result(run: &Run) -> RawJson {
    let outcomes: Vec<SeatOutcome<'_>> = run
        .seats
        .iter()
        .filter_map(|seat| match &seat.state {
            SeatState::Completed { held, output, .. } => Some(SeatOutcome { device: &held.device, output }),
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Claimed { .. }
            | SeatState::Processing { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Failed { .. } => None,
        })
        .collect();
    let seats = if outcomes.len() > 1 { &outcomes[..] } else { &[] };
    RawJson::of(&Outcome { first: outcomes.first(), seats })
}

/// The error of the seat that failed.
fn error(run: &Run) -> ActionError {
    let failures = run.seats.iter().filter_map(|seat| match &seat.state {
        SeatState::Failed { failure, .. } => Some(failure),
        SeatState::Created
        | SeatState::Assigned { .. }
        | SeatState::Claimed { .. }
        | SeatState::Processing { .. }
        | SeatState::Reassigning { .. }
        | SeatState::Completed { .. } => None,
    });
    let cause = failures.min_by_key(|failure| failure.kind == FailureKind::OtherSeat);
    let Some(Failure { kind, message, class }) = cause else {
        return ActionError {
            class: ErrorClass::named(Name::reserved("device")),
            message: "the run has failed".to_owned(),
            status: None,
        };
    };
    let own = match kind {
        FailureKind::Error | FailureKind::OtherSeat => "device",
        FailureKind::NobodyLeft => "nobody_left",
        FailureKind::Cancelled => "cancelled",
    };
    let class = class.clone().unwrap_or_else(|| Name::reserved(own));
    ActionError { class: ErrorClass::named(class), message: message.clone(), status: None }
}

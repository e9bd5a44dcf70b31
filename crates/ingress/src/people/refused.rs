//! Refusals of commands on items and assignments as problems that name the state.

use millstream_core::assignment::Refusal;
use millstream_core::problem::Problem as Fault;
use millstream_store::StoreError;

use crate::http::problem::{Kind, Problem};

pub(crate) fn refused(refusal: &Refusal) -> Problem {
    let kind = match refusal {
        Refusal::NotTheirs(_) => Kind::NotYours,
        Refusal::Unknown(_) => Kind::NotFound,
        Refusal::ReasonNeeded | Refusal::ReasonTooLong(_) => {
            return Problem::invalid(vec![Fault::new("reason", refusal.to_string())]);
        }
        Refusal::Assignment { .. }
        | Refusal::Item { .. }
        | Refusal::OtherAnswer { .. }
        | Refusal::NotDue { .. }
        | Refusal::NoDeadline { .. }
        | Refusal::NoOpening { .. }
        | Refusal::Barred { .. }
        | Refusal::NotEligible { .. }
        | Refusal::GivenOn { .. }
        | Refusal::Exhausted { .. }
        | Refusal::BeingCorrected(_) => Kind::Conflict,
    };
    Problem::new(kind, refusal.to_string())
}

/// The fault paths are those of the answer.
pub(crate) fn invalid_answer(faults: Vec<Fault>) -> Problem {
    let said = Problem::invalid(faults);
    Problem { kind: Kind::InvalidAnswer, ..said }
}

pub(crate) fn contended(error: StoreError) -> Problem {
    match error {
        StoreError::Contention(_) => {
            Problem::new(Kind::Busy, "the item is changed by many requests at once; retry")
        }
        error @ (StoreError::Unavailable(_) | StoreError::Corrupt(_)) => error.into(),
    }
}

pub(crate) fn silent() -> Problem {
    Problem::new(Kind::Internal, "the store gave no verdict")
}

//! Refusals of commands on items and assignments as problems that name the state.

use millstream_model::problem::ValidationProblem as Fault;
use millstream_people::assignment::ItemRefusal;
use millstream_store::StoreError;

use crate::http::problem::{ApiProblem, ProblemKind};

pub(crate) fn item_refusal(refusal: &ItemRefusal) -> ApiProblem {
    let kind = match refusal {
        ItemRefusal::NotTheirs(_) => ProblemKind::NotOwner,
        ItemRefusal::Unknown(_) => ProblemKind::NotFound,
        ItemRefusal::ReasonNeeded | ItemRefusal::ReasonTooLong(_) => {
            return ApiProblem::invalid(vec![Fault::new("reason", refusal.to_string())]);
        }
        ItemRefusal::Assignment { .. }
        | ItemRefusal::Item { .. }
        | ItemRefusal::OtherAnswer { .. }
        | ItemRefusal::NotDue { .. }
        | ItemRefusal::NoDeadline { .. }
        | ItemRefusal::NoOpening { .. }
        | ItemRefusal::Barred { .. }
        | ItemRefusal::NotEligible { .. }
        | ItemRefusal::GivenOn { .. }
        | ItemRefusal::Exhausted { .. }
        | ItemRefusal::BeingCorrected(_) => ProblemKind::Conflict,
    };
    ApiProblem::new(kind, refusal.to_string())
}

/// The fault paths are those of the answer.
pub(crate) fn invalid_answer(faults: Vec<Fault>) -> ApiProblem {
    let said = ApiProblem::invalid(faults);
    ApiProblem { kind: ProblemKind::InvalidAnswer, ..said }
}

pub(crate) fn contended_item(error: StoreError) -> ApiProblem {
    match error {
        StoreError::Contention(_) => {
            ApiProblem::new(ProblemKind::Busy, "the item is changed by many requests at once; retry")
        }
        error @ (StoreError::Unavailable(_) | StoreError::Corrupt(_)) => error.into(),
    }
}

pub(crate) fn missing_verdict() -> ApiProblem {
    ApiProblem::new(ProblemKind::Internal, "the store gave no verdict")
}

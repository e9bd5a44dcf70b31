//! Refusals of commands on items and assignments as refusals that name the state.

use millstream_model::problem::ValidationProblem as Fault;
use millstream_people::assignment::ItemRefusal;
use millstream_store::StoreError;

use crate::refusal::{RefusalKind, RequestRefusal};

pub(crate) fn item_refusal(refusal: &ItemRefusal) -> RequestRefusal {
    let kind = match refusal {
        ItemRefusal::NotTheirs(_) => RefusalKind::NotOwner,
        ItemRefusal::Unknown(_) => RefusalKind::NotFound,
        ItemRefusal::ReasonNeeded | ItemRefusal::ReasonTooLong(_) => {
            return RequestRefusal::invalid(vec![Fault::new("reason", refusal.to_string())]);
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
        | ItemRefusal::BeingCorrected(_) => RefusalKind::Conflict,
    };
    RequestRefusal::new(kind, refusal.to_string())
}

/// The fault paths are those of the answer.
pub(crate) fn invalid_answer(faults: Vec<Fault>) -> RequestRefusal {
    let said = RequestRefusal::invalid(faults);
    RequestRefusal { kind: RefusalKind::InvalidAnswer, ..said }
}

pub(crate) fn contended_item(error: StoreError) -> RequestRefusal {
    match error {
        StoreError::Contention(_) => {
            RequestRefusal::new(RefusalKind::Busy, "the item is changed by many requests at once; retry")
        }
        error @ (StoreError::Unavailable(_) | StoreError::Corrupt(_)) => error.into(),
    }
}

pub(crate) fn missing_verdict() -> RequestRefusal {
    RequestRefusal::new(RefusalKind::Internal, "the store gave no verdict")
}

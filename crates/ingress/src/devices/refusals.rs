//! Refusals of run commands as problems that name the holder.

use millstream_devices::claim::{RunRefusal, RunRefusalReason};
use millstream_model::id::RunKey;

use crate::http::problem::{ApiProblem, ProblemKind};

pub(crate) fn run_refusal(refusal: &RunRefusal) -> ApiProblem {
    let kind = match &refusal.why {
        RunRefusalReason::StaleToken | RunRefusalReason::Taken | RunRefusalReason::Release => {
            ProblemKind::NotOwner
        }
        RunRefusalReason::NotNow
        | RunRefusalReason::OnAnotherSeat
        | RunRefusalReason::Unfit(_)
        | RunRefusalReason::Paused
        | RunRefusalReason::Manual
        | RunRefusalReason::NotDue
        | RunRefusalReason::NotHigher
        | RunRefusalReason::BelongsTo(_) => ProblemKind::Conflict,
        RunRefusalReason::NoSuchSeat => ProblemKind::NotFound,
    };
    ApiProblem::new(kind, refusal.to_string()).held_by(refusal.holder.clone())
}

pub(crate) fn no_run(key: &RunKey) -> ApiProblem {
    ApiProblem::not_found("run", &key.run)
}

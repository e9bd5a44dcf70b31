//! Refusals of run commands as refusals that name the holder.

use millstream_devices::claim::{RunRefusal, RunRefusalReason};
use millstream_model::id::RunKey;

use crate::refusal::{RefusalKind, RequestRefusal};

pub(crate) fn run_refusal(refusal: &RunRefusal) -> RequestRefusal {
    let kind = match &refusal.why {
        RunRefusalReason::StaleToken | RunRefusalReason::Taken | RunRefusalReason::Release => {
            RefusalKind::NotOwner
        }
        RunRefusalReason::NotNow
        | RunRefusalReason::OnAnotherSeat
        | RunRefusalReason::Unfit(_)
        | RunRefusalReason::Paused
        | RunRefusalReason::Manual
        | RunRefusalReason::NotDue
        | RunRefusalReason::NotHigher
        | RunRefusalReason::BelongsTo(_) => RefusalKind::Conflict,
        RunRefusalReason::NoSuchSeat => RefusalKind::NotFound,
    };
    RequestRefusal::new(kind, refusal.to_string()).held_by(refusal.holder.clone())
}

pub(crate) fn no_run(key: &RunKey) -> RequestRefusal {
    RequestRefusal::not_found("run", &key.run)
}

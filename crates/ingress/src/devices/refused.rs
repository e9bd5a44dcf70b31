//! Refusals of run commands as problems that name the holder.

use millstream_core::claim::{Refusal, Why};
use millstream_core::id::RunKey;

use crate::http::problem::{Kind, Problem};

pub(crate) fn refused(refusal: &Refusal) -> Problem {
    let kind = match &refusal.why {
        Why::StaleToken | Why::Taken | Why::Release => Kind::NotYours,
        Why::NotNow
        | Why::OnAnotherSeat
        | Why::Unfit(_)
        | Why::Paused
        | Why::Manual
        | Why::NotDue
        | Why::NotHigher
        | Why::BelongsTo(_) => Kind::Conflict,
        Why::NoSuchSeat => Kind::NotFound,
    };
    Problem::new(kind, refusal.to_string()).held_by(refusal.holder.clone())
}

pub(crate) fn no_run(key: &RunKey) -> Problem {
    Problem::not_found("run", &key.run)
}

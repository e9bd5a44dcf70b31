//! Metrics of runs of devices.

use millstream_core::claim::{Refusal, Why};
use millstream_store::running::Tally;

pub(super) fn written(tally: &Tally) {
    metrics::counter!("millstream_runs_created_total").increment(tally.created);
    metrics::counter!("millstream_run_assignments_total").increment(tally.assigned);
    for (reason, count) in &tally.reassigned {
        metrics::counter!("millstream_run_reassignments_total", "reason" => reason.as_str())
            .increment(*count);
    }
    metrics::counter!("millstream_runs_ended_total", "status" => "completed").increment(tally.completed);
    metrics::counter!("millstream_runs_ended_total", "status" => "failed").increment(tally.failed);
    for time in &tally.until_claimed {
        metrics::histogram!("millstream_run_claim_seconds").record(time.as_secs_f64());
    }
}

/// Counts an act without a right to the seat.
pub(super) fn refused(refusal: &Refusal) {
    let why = match &refusal.why {
        Why::StaleToken => "stale_token",
        Why::Taken => "taken",
        Why::Release => "release",
        Why::NotNow
        | Why::OnAnotherSeat
        | Why::Unfit(_)
        | Why::Paused
        | Why::Manual
        | Why::NotDue
        | Why::NotHigher
        | Why::BelongsTo(_)
        | Why::NoSuchSeat => "state",
    };
    metrics::counter!("millstream_run_acts_refused_total", "why" => why).increment(1);
}

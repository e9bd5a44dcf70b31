//! Metrics of runs of devices.

use millstream_devices::claim::{RunRefusal, RunRefusalReason};
use millstream_store::run_service::RunCounters;

pub(super) fn count_written(tally: &RunCounters) {
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
pub(super) fn count_refusal(refusal: &RunRefusal) {
    let why = match &refusal.why {
        RunRefusalReason::StaleToken => "stale_token",
        RunRefusalReason::Taken => "taken",
        RunRefusalReason::Release => "release",
        RunRefusalReason::NotNow
        | RunRefusalReason::OnAnotherSeat
        | RunRefusalReason::Unfit(_)
        | RunRefusalReason::Paused
        | RunRefusalReason::Manual
        | RunRefusalReason::NotDue
        | RunRefusalReason::NotHigher
        | RunRefusalReason::BelongsTo(_)
        | RunRefusalReason::NoSuchSeat => "state",
    };
    metrics::counter!("millstream_run_acts_refused_total", "why" => why).increment(1);
}
